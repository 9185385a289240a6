package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// cgroup makes a cgroup with one limit. Both hierarchies are tried.
func cgroup(t *testing.T, controller, v1File, v2File, value string) string {
	t.Helper()
	parent, file := "/sys/fs/cgroup/"+controller, v1File
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		parent, file = "/sys/fs/cgroup", v2File
	}
	dir, err := os.MkdirTemp(parent, "realm-guest-")
	if err != nil {
		t.Skipf("no cgroup can be made here: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		eventually(t, "the cgroup is empty", func() bool { return os.Remove(dir) == nil })
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
		t.Skipf("the cgroup takes no limit of %s: %v", controller, err)
	}
	return dir
}

func TestOOM(t *testing.T) {
	dir := cgroup(t, "memory", "memory.limit_in_bytes", "memory.max", "64000000")
	for name, value := range map[string]string{"memory.memsw.limit_in_bytes": "64000000", "memory.swap.max": "0"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			continue // of the other hierarchy, or no swap accounting
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := newBox(t, func(c *stageConfig) { c.Cgroup, c.CgroupMount = dir, "memory" })
	if !b.link.Hello().OOMKnown {
		t.Fatal("the counter is not visible")
	}
	_, _, st := b.output(b.request("sh", "-c", "exit 1"))
	if !st.OOMKnown || st.OOM {
		t.Errorf("without a reason: %+v", st)
	}
	for range 2 {
		_, _, st = b.output(b.request("sh", "-c", "exec tail -n 1 </dev/zero"))
		if !st.OOM || st.Signal != unix.SIGKILL {
			t.Errorf("a hog: %+v", st)
		}
	}
	if got := b.sh("echo alive"); got != "alive" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestPidsLimit: with no process left, init lives, says so, and can clean up.
func TestPidsLimit(t *testing.T) {
	dir := cgroup(t, "pids", "pids.max", "pids.max", "60")
	b := newBox(t, func(c *stageConfig) { c.Cgroup = dir })
	bomb := b.exec(b.request(forkBomb()...))
	b.waitForOutput(bomb)
	full := false
	for range 200 {
		r := b.request("true")
		r.NoStdin = true
		p, err := b.link.Exec(b.context(), r)
		if err == nil {
			b.wait(p)
			p.closeFiles()
			continue
		}
		failed, ok := errors.AsType[*StartError](err)
		if !ok {
			t.Fatal(err)
		}
		if failed.Errno == unix.EAGAIN && (failed.Phase == PhaseFork || failed.Phase == PhaseSupervisor) {
			full = true
		} else {
			t.Errorf("%v", err)
		}
	}
	if !full {
		t.Error("the limit was never in the way: the test proves nothing")
	}
	if err := bomb.Kill(b.context()); err != nil {
		t.Fatal(err)
	}
	b.wait(bomb)
	eventually(t, "only init and its shims are left", func() bool { return b.programs() == 0 })
	if got := b.sh("echo alive"); got != "alive" {
		t.Errorf("afterwards: %q", got)
	}
}
