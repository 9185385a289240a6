package podman

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"realm.dev/contract"
	"realm.dev/integration/podmantest"
)

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// runningWith lists the processes that have text on their command line.
func runningWith(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), text) {
			found = append(found, file)
		}
	}
	return found
}

// TestOwnServiceComesBack: it ends when idle, or is killed; containers go on, and
// the next request starts it again.
func TestOwnServiceComesBack(t *testing.T) {
	e := open(t)
	b := specOf(t, e).start()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		svc := e.conn.service
		svc.mu.Lock()
		pid := svc.proc.Pid
		svc.mu.Unlock()
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the service is gone", func() bool { return !alive(pid) })
		st, err := e.Inspect(t.Context(), b.id)
		b.must(err)
		if st.Pid <= 0 || b.guest.run("true").Code != 0 {
			t.Errorf("after %v: %+v", sig, st)
		}
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	e := open(t)
	svc := e.conn.service
	pid := svc.proc.Pid
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service is gone", func() bool { return !alive(pid) && len(runningWith(t, svc.dir)) == 0 })
	if _, err := os.Lstat(svc.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its directory is there: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("the second close: %v", err)
	}
	if _, err := e.Inspect(t.Context(), "x"); contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Errorf("after close: %v", err)
	}
}

// holdMain starts a service, says which and where, and waits to be killed.
func holdMain() error {
	dir, err := os.MkdirTemp("/tmp", "rp-")
	if err != nil {
		return err
	}
	conn, err := startOwn(context.Background(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	fmt.Println(conn.service.proc.Pid, dir)
	time.Sleep(time.Hour)
	return nil
}

// TestServiceOutlivesARealmThatIsKilled, but only by its idle time: the removal of
// a container that it was at is ended, and nobody waits for the lock of one whose
// service was ended in the middle of it.
func TestServiceOutlivesARealmThatIsKilled(t *testing.T) {
	podmantest.Require(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holdEnv+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	var dir string
	_, scanErr := fmt.Fscan(bufio.NewReader(out), &pid, &dir)
	t.Cleanup(func() { os.RemoveAll(dir) })
	session, _ := unix.Getsid(pid)
	ours, _ := unix.Getsid(0)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if scanErr != nil {
		t.Fatal(scanErr)
	}
	if session == ours || session != pid {
		t.Errorf("the service is in the session %d, ours is %d: a terminal's signals reach it", session, ours)
	}
	// A rootless service is two processes: the inner one is in a user namespace.
	for deadline := time.Now().Add(time.Minute); alive(pid) || len(runningWith(t, dir)) != 0; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the service did not end by its idle timer")
		}
	}

	// What it has left is removed by the next one.
	left, err := filepath.Glob(filepath.Join(dir, servicePrefix+"*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("left %v (%v)", left, err)
	}
	svc, err := newService(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer svc.stop()
	removeDead(dir)
	now, err := filepath.Glob(filepath.Join(dir, servicePrefix+"*"))
	if err != nil || !slices.Equal(now, []string{svc.dir}) {
		t.Errorf("there are %v, want the living one's %s (%v)", now, svc.dir, err)
	}
}

func TestServiceThatCannotStart(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho no storage >&2\nexit 125\n"
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	dir := scratch(t)
	_, err := startOwn(t.Context(), dir, slog.New(slog.DiscardHandler))
	if contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Fatalf("got %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left %v (%v)", entries, err)
	}
}

func TestServiceEnv(t *testing.T) {
	got := serviceEnv([]string{
		"HOME=/h", "PODMAN_USERNS=host", "CONTAINER_HOST=tcp://x", "CONTAINERS_CONF=/evil", "CONTAINERS_CONF_OVERRIDE=/evil", "LISTEN_FDS=1",
		"NOTIFY_SOCKET=/x", "_CONTAINERS_USERNS_CONFIGURED=done", "CONTAINERS_STORAGE_CONF=/s", "CONTAINERS_REGISTRIES_CONF=/r", "STORAGE_DRIVER=vfs",
	}, "/ours")
	want := []string{"CONTAINERS_CONF=/ours", "HOME=/h", "CONTAINERS_STORAGE_CONF=/s", "CONTAINERS_REGISTRIES_CONF=/r", "STORAGE_DRIVER=vfs"}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
