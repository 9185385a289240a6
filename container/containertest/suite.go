package containertest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"realm.dev/container"
	"realm.dev/contract"
)

// patience bounds every wait of the suite for something that must happen.
const patience = 60 * time.Second

// suite is an engine under test with the way to make specs for it.
type suite struct {
	e       container.Engine
	newSpec func(*testing.T) *container.Spec
}

// Suite checks what every engine promises. newSpec returns a valid Spec of its
// own at each call, whose PID 1 runs until it is killed; containers of it are
// removed by the suite.
func Suite(t *testing.T, e container.Engine, newSpec func(*testing.T) *container.Spec) {
	s := suite{e, newSpec}
	for name, test := range map[string]func(*testing.T){
		"version":        s.version,
		"states":         s.states,
		"create twice":   s.createTwice,
		"repeated steps": s.repeatedSteps,
		"exit status":    s.exitStatus,
		"not found":      s.notFound,
		"remove":         s.removeAnyState,
		"list":           s.list,
		"events":         s.events,
		"cancelled":      s.cancelled,
		"at once":        s.atOnce,
		"invalid spec":   s.invalidSpec,
		"verify":         s.verify,
		"read back":      s.readBack,
		"image":          s.image,
	} {
		t.Run(name, test)
	}
}

// create makes a container that ends with the test.
func (s suite) create(t *testing.T) (string, *container.Spec) {
	t.Helper()
	spec := s.newSpec(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.e.Remove(ctx, spec.Name()); err != nil {
			t.Errorf("remove: %v", err)
		}
	})
	id, err := s.e.Create(t.Context(), spec)
	must(t, err)
	return id, spec
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (%v)", err, contract.AsError(err).Cause)
	}
}

func wantCode(t *testing.T, err error, code contract.Code) {
	t.Helper()
	if err == nil || contract.CodeOf(err) != code {
		t.Errorf("got %v, want %s", err, code)
	}
	if _, ok := errors.AsType[*contract.Error](err); err != nil && !ok {
		t.Errorf("%T is not an error of realm's", err)
	}
}

func (s suite) state(t *testing.T, id string) container.Status {
	t.Helper()
	st, err := s.e.Inspect(t.Context(), id)
	must(t, err)
	return st
}

func (s suite) version(t *testing.T) {
	info, err := s.e.Version(t.Context())
	must(t, err)
	major, _, _ := strings.Cut(info.Version, ".")
	if len(major) != 1 || major < "5" || info.Runtime == "" || info.CgroupVersion == "" {
		t.Errorf("got %+v", info)
	}
}

func (s suite) states(t *testing.T) {
	id, spec := s.create(t)
	st := s.state(t, id)
	if st.State != container.Created || st.ID != id || st.Name != spec.Name() || st.Pid != 0 || st.ExitCode != nil {
		t.Errorf("created: %+v", st)
	}
	if !carries(st.Labels, spec.Labels()) {
		t.Errorf("labels: got %v, want %v", st.Labels, spec.Labels())
	}
	must(t, s.e.Init(t.Context(), id))
	st = s.state(t, id)
	pid := st.Pid
	if st.State != container.Initialized || pid <= 0 {
		t.Errorf("initialized: %+v", st)
	}
	must(t, s.e.Start(t.Context(), id))
	st = s.state(t, id)
	if st.State != container.Running || st.Pid != pid || st.StartedAt.IsZero() || st.CgroupPath == "" {
		t.Errorf("running, with pid %d before: %+v", pid, st)
	}
	must(t, s.e.Signal(t.Context(), id, int(syscall.SIGKILL)))
	_, err := s.e.Wait(t.Context(), id)
	must(t, err)
	st = s.state(t, id)
	if st.State != container.Exited || st.ExitCode == nil || *st.ExitCode != 137 || st.Pid != 0 {
		t.Errorf("exited: %+v", st)
	}
	must(t, s.e.Remove(t.Context(), id))
	_, err = s.e.Inspect(t.Context(), id)
	wantCode(t, err, contract.SessionNotFound)
}

func (s suite) createTwice(t *testing.T) {
	id, spec := s.create(t)
	again, err := s.e.Create(t.Context(), spec)
	must(t, err)
	if again != id {
		t.Errorf("a second container %s beside %s", again, id)
	}
}

func (s suite) repeatedSteps(t *testing.T) {
	id, _ := s.create(t)
	for range 2 {
		must(t, s.e.Init(t.Context(), id))
	}
	for range 2 {
		must(t, s.e.Start(t.Context(), id))
	}
	if st := s.state(t, id); st.State != container.Running {
		t.Errorf("got %+v", st)
	}
}

func (s suite) exitStatus(t *testing.T) {
	id, _ := s.create(t)
	must(t, s.e.Start(t.Context(), id))
	type result struct {
		exit container.ExitStatus
		err  error
	}
	done := make(chan result, 1)
	go func() {
		exit, err := s.e.Wait(t.Context(), id)
		done <- result{exit, err}
	}()
	must(t, s.e.Signal(t.Context(), id, int(syscall.SIGKILL)))
	select {
	case r := <-done:
		must(t, r.err)
		if r.exit.Code == nil || *r.exit.Code != 137 || r.exit.At.IsZero() {
			t.Errorf("got %+v, want 137", r.exit)
		}
	case <-time.After(patience):
		t.Fatal("wait did not return")
	}
	wantCode(t, s.e.Signal(t.Context(), id, int(syscall.SIGKILL)), contract.SessionState)
}

func (s suite) notFound(t *testing.T) {
	spec := s.newSpec(t)
	id := spec.Name()
	_, inspectErr := s.e.Inspect(t.Context(), id)
	_, waitErr := s.e.Wait(t.Context(), id)
	_, readErr := s.e.ReadBack(t.Context(), id, spec)
	for op, err := range map[string]error{
		"init": s.e.Init(t.Context(), id), "start": s.e.Start(t.Context(), id), "verify": s.e.Verify(t.Context(), id, spec),
		"signal": s.e.Signal(t.Context(), id, 9), "inspect": inspectErr, "wait": waitErr, "read back": readErr,
	} {
		t.Run(op, func(t *testing.T) { wantCode(t, err, contract.SessionNotFound) })
	}
	must(t, s.e.Remove(t.Context(), id))
}

func (s suite) removeAnyState(t *testing.T) {
	nothing := func(context.Context, string) error { return nil }
	kill := func(ctx context.Context, id string) error { return s.e.Signal(ctx, id, int(syscall.SIGKILL)) }
	for name, steps := range map[string][]func(context.Context, string) error{
		"created": {nothing}, "initialized": {s.e.Init}, "running": {s.e.Start}, "exited": {s.e.Start, kill},
	} {
		t.Run(name, func(t *testing.T) {
			id, spec := s.create(t)
			for _, step := range steps {
				must(t, step(t.Context(), id))
			}
			for range 2 {
				must(t, s.e.Remove(t.Context(), id))
			}
			list, err := s.e.List(t.Context(), spec.Labels())
			must(t, err)
			if len(list) != 0 {
				t.Errorf("still there: %+v", list)
			}
		})
	}
}

func (s suite) cancelled(t *testing.T) {
	id, spec := s.create(t)
	must(t, s.e.Start(t.Context(), id))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.e.Wait(ctx, id)
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("wait: got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("wait did not end with its context")
	}
	_, err := s.e.Create(ctx, spec)
	wantCode(t, err, contract.PodmanUnavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("create: got %v", err)
	}
	if st := s.state(t, id); st.State != container.Running {
		t.Errorf("a cancelled wait changed the container: %+v", st)
	}
}

func (s suite) atOnce(t *testing.T) {
	const n = 6
	var group sync.WaitGroup
	for range n {
		spec := s.newSpec(t)
		group.Go(func() {
			ctx := context.WithoutCancel(t.Context())
			id, err := s.e.Create(ctx, spec)
			for _, step := range []func(context.Context, string) error{s.e.Init, s.e.Start, s.e.Remove} {
				if err == nil {
					err = step(ctx, id)
				}
			}
			if err != nil {
				t.Errorf("%v (%v)", err, contract.AsError(err).Cause)
			}
			if err := s.e.Remove(ctx, spec.Name()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func (s suite) invalidSpec(t *testing.T) {
	spec := s.newSpec(t)
	spec.Limits.Pids = 0
	_, err := s.e.Create(t.Context(), spec)
	wantCode(t, err, contract.Internal)
	list, err := s.e.List(t.Context(), spec.Labels())
	must(t, err)
	if len(list) != 0 {
		t.Errorf("made all the same: %+v", list)
	}
}

func (s suite) verify(t *testing.T) {
	id, spec := s.create(t)
	check := func(state string) {
		must(t, s.e.Verify(t.Context(), id, spec))
		for name, change := range map[string]func(*container.Spec){
			"workspace": func(c *container.Spec) { c.Workspace.Write = !c.Workspace.Write },
			"program":   func(c *container.Spec) { c.Init.Args = []string{"other"} },
			"user":      func(c *container.Spec) { c.User.Root = !c.User.Root },
			"tmpfs":     func(c *container.Spec) { c.Tmpfs = c.Tmpfs[:len(c.Tmpfs)-1] },
		} {
			other := *spec
			other.Tmpfs = slices.Clone(spec.Tmpfs)
			change(&other)
			if err := s.e.Verify(t.Context(), id, &other); contract.CodeOf(err) != contract.IsolationUnproven {
				t.Errorf("%s, another %s: got %v", state, name, err)
			}
		}
	}
	check("created")
	must(t, s.e.Init(t.Context(), id))
	check("initialized")
}

func (s suite) readBack(t *testing.T) {
	id, spec := s.create(t)
	_, err := s.e.ReadBack(t.Context(), id, spec)
	wantCode(t, err, contract.IsolationUnproven)
	must(t, s.e.Start(t.Context(), id))
	limits, err := s.e.ReadBack(t.Context(), id, spec)
	must(t, err)
	found := map[string]float64{}
	for _, l := range limits {
		found[l.Name] = l.Asked
		if l.InForce != nil && *l.InForce > l.Asked {
			t.Errorf("%s: %v is in force, %v was asked", l.Name, *l.InForce, l.Asked)
		}
	}
	l := spec.Limits
	for name, asked := range map[string]float64{
		"memoryBytes": float64(l.MemoryBytes), "cpus": l.CPUs, "pids": float64(l.Pids), "openFiles": float64(l.OpenFiles),
	} {
		if found[name] != asked {
			t.Errorf("%s: %v asked, want %v", name, found[name], asked)
		}
	}
}

func (s suite) image(t *testing.T) {
	for _, ref := range []string{"", "--privileged", "UPPER/case", "a b", "localhost:1/realm-has-no-such-image:none"} {
		_, err := s.e.EnsureImage(t.Context(), ref, nil)
		wantCode(t, err, contract.ImageUnavailable)
	}
}
