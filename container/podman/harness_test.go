package podman

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"realm.dev/container"
	"realm.dev/container/idmap"
	"realm.dev/container/rootfs"
	"realm.dev/container/seccomp"
	"realm.dev/contract"
	"realm.dev/integration/podmantest"
)

// scratch is a directory with a short name, as sockets need, that other ids may
// pass through.
func scratch(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rp-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// open returns an Engine on a service of its own, whatever sockets there are.
func open(t *testing.T) *Engine {
	t.Helper()
	podmantest.Require(t)
	withoutEnv(t, "CONTAINER_HOST")
	dir := scratch(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conn, err := startOwn(t.Context(), dir, log)
	if err != nil {
		t.Fatalf("%v: %v", err, contract.AsError(err).Cause)
	}
	redirectLogrus(log)
	e := newEngine(conn, dir, log)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// withoutEnv unsets a variable for the test. Set to nothing, it still turns
// Podman's command line into a remote one.
func withoutEnv(t *testing.T, name string) {
	t.Helper()
	t.Setenv(name, "")
	if err := os.Unsetenv(name); err != nil {
		t.Fatal(err)
	}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// box is a container with what it is made of.
type box struct {
	*container.Spec
	t      *testing.T
	e      *Engine
	id     string
	dir    string // on the host
	guest  *guest
	listen func() *guest
}

// specOf makes everything that a container needs on the host: a workspace, the
// root of image: host, the filter. It can be changed before create.
func specOf(t *testing.T, e *Engine, changes ...func(*container.Spec)) *box {
	t.Helper()
	dir := scratch(t)
	b := &box{t: t, e: e, dir: dir}
	for _, sub := range []string{"work", "link", "etc"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l := listen(t, filepath.Join(dir, "link"))
	b.listen = func() *guest { return accept(t, l) }
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.ToLower(strings.TrimPrefix(filepath.Base(dir), "rp-"))
	b.Spec = &container.Spec{
		RealmID: "podman-test", SessionID: "t-" + id, Epoch: "e", Hostname: "t-" + id,
		Init:      container.Init{Binary: self, SocketDir: filepath.Join(dir, "link"), Args: []string{"init"}},
		Workspace: container.Bind{Source: filepath.Join(dir, "work"), Destination: filepath.Join(dir, "work"), Write: true, Exec: true, Owned: true, Role: "workspace"},
		Tmpfs: []container.Tmpfs{
			{Destination: "/tmp", SizeBytes: 64 << 20},
			{Destination: "/home", SizeBytes: 16 << 20},
			{Destination: "/var/tmp", SizeBytes: 16 << 20},
			{Destination: "/dev/shm", SizeBytes: 8 << 20, NoExec: true},
			{Destination: "/run", SizeBytes: 8 << 20, NoExec: true},
		},
		Limits:         container.Limits{MemoryBytes: 256 << 20, CPUs: 1.5, Pids: 200, OpenFiles: 1024, AllowUnenforced: []string{"memory"}},
		SeccompProfile: filepath.Join(dir, "seccomp.json"),
		Rootfs:         filepath.Join(dir, "root"),
		User:           ownerOf(t, e, filepath.Join(dir, "work")),
	}
	if err := seccomp.WriteFile(b.SeccompProfile); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"hosts", "resolv.conf", "hostname"} {
		file := filepath.Join(dir, "etc", name)
		if err := os.WriteFile(file, []byte("# "+name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		b.Binds = append(b.Binds, container.Bind{Source: file, Destination: "/etc/" + name, Role: "etc"})
	}
	for _, change := range changes {
		change(b.Spec)
	}
	if b.Rootfs != "" {
		usr, err := rootfs.HostBinds()
		if err != nil {
			t.Fatal(err)
		}
		b.Binds = append(b.Binds, usr...)
		if err := rootfs.Skeleton(b.Rootfs, b.Spec); err != nil {
			t.Fatal(err, contract.AsError(err).Cause)
		}
	}
	return b
}

// ownerOf is the user part of a spec for a workspace of our own.
func ownerOf(t *testing.T, e *Engine, work string) container.User {
	t.Helper()
	u := container.User{OwnerUID: uint32(os.Getuid()), OwnerGID: uint32(os.Getgid())}
	if e.conn.rootless() {
		return u
	}
	var err error
	if u.Idmap, err = idmap.Supported(work); err != nil {
		t.Fatal(err)
	}
	r, err := idmap.Acquire(idmap.Dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Release(); err != nil {
			t.Error(err)
		}
	})
	u.Base = r.Base
	return u
}

// create makes the container and removes it with the test.
func (b *box) create() *box {
	b.t.Helper()
	b.t.Cleanup(b.remove)
	id, err := b.e.Create(b.t.Context(), b.Spec)
	b.must(err)
	b.id = id
	b.must(b.e.Verify(b.t.Context(), id, b.Spec))
	return b
}

// start runs the container up to PID 1's call.
func (b *box) start() *box {
	b.t.Helper()
	if b.id == "" {
		b.create()
	}
	b.must(b.e.Init(b.t.Context(), b.id))
	b.must(b.e.Verify(b.t.Context(), b.id, b.Spec))
	b.must(b.e.Start(b.t.Context(), b.id))
	b.guest = b.listen()
	return b
}

func (b *box) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := b.e.Remove(ctx, b.Name()); err != nil {
		b.t.Errorf("remove: %v: %v", err, contract.AsError(err).Cause)
	}
}

func (b *box) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v: %v", err, contract.AsError(err).Cause)
	}
}

// owned fails unless a file of the workspace belongs to its owner on the host.
func owned(t *testing.T, b *box, file string) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != b.User.OwnerUID || st.Gid != b.User.OwnerGID {
		t.Errorf("%s belongs to %d:%d, want %d:%d", file, st.Uid, st.Gid, b.User.OwnerUID, b.User.OwnerGID)
	}
}

const goarch = runtime.GOARCH

func execCommand(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	return string(out), err
}
