package guest

import (
	"fmt"
	"os"
	"strings"
	"testing"
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
