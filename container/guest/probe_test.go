package guest

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (b *box) probeRequest() ProbeRequest {
	return ProbeRequest{
		UID: programUID, GID: programUID, Dir: "/workspace",
		Env:      []string{"PATH=/usr/bin:/bin", "HOME=/home/u"},
		Writable: []string{"/workspace", "/tmp", "/home", "/run", "/dev/shm"},
		ReadOnly: []string{"/usr", "/etc/passwd", "/run/realm/link", "/run/realm/realm-init"},
		Rlimits:  []Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 4096, Hard: 4096}},
	}
}

func TestProbe(t *testing.T) {
	b := newBox(t)
	for range 3 {
		start := time.Now()
		r, err := b.link.Probe(b.context(), b.probeRequest())
		t.Logf("%v", time.Since(start))
		if err != nil {
			t.Fatalf("%v; %s", err, b.stderr)
		}
		for _, p := range r.Results {
			t.Logf("%-20s %v %s", p.Name, p.OK, p.Detail)
		}
		for _, p := range r.Failed() {
			t.Errorf("%s: %s", p.Name, p.Detail)
		}
	}
}
