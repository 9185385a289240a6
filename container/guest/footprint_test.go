package guest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFootprint prints what an idle session costs inside and bounds it
// generously.
func TestFootprint(t *testing.T) {
	b := newBox(t)
	b.sh("true")
	total, threads := 0, 0
	for _, p := range b.hostProcesses() {
		private, n := footprint(t, p.pid)
		t.Logf("%s: %d KiB private, %d threads", p.name, private, n)
		total, threads = total+private, threads+n
	}
	t.Logf("together: %d KiB private, %d threads", total, threads)
	if total > 16<<10 || threads > 40 {
		t.Errorf("%d KiB, %d threads", total, threads)
	}
}

// TestBinarySize: the binary is mapped into every session.
func TestBinarySize(t *testing.T) {
	path, err := initBinary()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("realm-init: %d KiB", info.Size()>>10)
	if info.Size() > 4<<20 {
		t.Errorf("%d bytes", info.Size())
	}
}

// TestNothingLeaks: calls of every kind leave no descriptor in init.
func TestNothingLeaks(t *testing.T) {
	b := newBox(t)
	round := func() {
		b.sh("true")
		if _, err := b.link.Exec(b.context(), b.request("no-such-program")); err == nil {
			t.Fatal("started nothing")
		}
		r := b.request("true")
		r.Tty = true
		p := b.exec(r)
		b.wait(p)
		p.closeFiles()
		p = b.exec(b.request("sh", "-c", "sleep 1000 & exit 0"))
		b.wait(p)
		if err := p.Kill(b.context()); err != nil {
			t.Fatal(err)
		}
		p.closeFiles()
		r = b.request("true")
		r.Rlimits = []Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 64, Hard: 64}}
		b.output(r)
		b.probe(b.probeRequest())
	}
	for range 3 {
		round()
	}
	before := descriptorsOf(t, b.pid)
	for range 20 {
		round()
	}
	// The number of shims, with a socket each, may differ.
	eventually(t, "init has as many descriptors as before", func() bool { return descriptorsOf(t, b.pid) <= before+2 })
}

func descriptorsOf(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func footprint(t *testing.T, pid int) (private, threads int) {
	t.Helper()
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(rollup)) {
		var kib int
		if _, err := fmt.Sscanf(line, "Private_Dirty: %d kB", &kib); err == nil {
			private += kib
		}
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	return private, len(tasks)
}
