package containertest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"realm.dev/container"
	"realm.dev/contract"
)

var specs atomic.Int64

func newSpec(*testing.T) *container.Spec {
	id := fmt.Sprintf("s%d", specs.Add(1))
	return &container.Spec{
		RealmID: "fake", SessionID: id, Epoch: "e", Hostname: id, Rootfs: "/root-of-it", SeccompProfile: "/seccomp.json",
		Init:      container.Init{Binary: "/init", SocketDir: "/link"},
		Workspace: container.Bind{Source: "/w", Destination: "/w", Write: true},
		Tmpfs:     []container.Tmpfs{{Destination: "/dev/shm", SizeBytes: 1}, {Destination: "/tmp", SizeBytes: 1}},
		Limits:    container.Limits{MemoryBytes: 1, CPUs: 1, Pids: 1, OpenFiles: 1},
	}
}

func TestFake(t *testing.T) { Suite(t, New(), newSpec) }

func TestFaults(t *testing.T) {
	f, spec := New(), newSpec(t)
	ctx := t.Context()
	boom := contract.Errorf(contract.PodmanUnavailable, "boom")
	f.Fail(OpCreate, boom)
	f.FailAfter(OpCreate, boom)
	for i, want := range []int{0, 1} {
		if _, err := f.Create(ctx, spec); !errors.Is(err, boom) {
			t.Fatalf("create %d: %v", i, err)
		}
		list, err := f.List(ctx, spec.Labels())
		if err != nil || len(list) != want {
			t.Errorf("after failure %d there are %d containers, want %d (%v)", i, len(list), want, err)
		}
	}
	id, err := f.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	f.Fail(OpStart, errors.New("plain"))
	if err := f.Start(ctx, id); contract.CodeOf(err) != contract.Internal {
		t.Errorf("a plain error became %v", err)
	}
}

func TestHooksAndExit(t *testing.T) {
	f, spec := New(), newSpec(t)
	var started string
	f.OnInit = func(*container.Spec) int { return 42 }
	f.OnStart = func(s *container.Spec) { started = s.SessionID }
	f.AddImage("i", container.Image{ID: "x"})
	id, err := f.Create(t.Context(), spec)
	if err == nil {
		err = f.Start(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Inspect(t.Context(), id)
	if err != nil || st.Pid != 42 || started != spec.SessionID {
		t.Errorf("got %+v, started %q (%v)", st, started, err)
	}
	f.Exit(id, 7)
	exit, err := f.Wait(t.Context(), id)
	if err != nil || exit.Code == nil || *exit.Code != 7 {
		t.Errorf("got %+v (%v)", exit, err)
	}
	var told []container.Progress
	image, err := f.EnsureImage(t.Context(), "i", func(p container.Progress) { told = append(told, p) })
	if err != nil || image.ID != "x" || len(told) == 0 {
		t.Errorf("got %+v, %v (%v)", image, told, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Inspect(t.Context(), id); contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Errorf("after close: %v", err)
	}
}
