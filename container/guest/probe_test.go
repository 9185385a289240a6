package guest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

func (b *box) probeRequest() ProbeRequest {
	return ProbeRequest{
		UID: programUID, GID: programUID, Dir: "/workspace", Home: "/home/u",
		Env:         []string{"PATH=/usr/bin:/bin", "HOME=/home/u"},
		Writable:    []string{"/workspace", "/tmp", "/home/u", "/run", "/dev/shm"},
		ReadOnly:    []string{"/usr", "/etc/passwd", "/run/realm/link", "/run/realm/realm-init"},
		Rlimits:     []Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 4096, Hard: 4096}},
		TCP:         []string{"203.0.113.7:22", "[2001:db8::7]:22"},
		UDP:         []string{"203.0.113.7:123"},
		Names:       []string{"other.example"},
		HostSockets: []string{"/tmp/no.sock"},
	}
}

func (b *box) probe(r ProbeRequest) ProbeReport {
	b.tb.Helper()
	report, err := b.link.Probe(b.context(), r)
	if err != nil {
		b.tb.Fatalf("probe: %v; %s", err, b.stderr)
	}
	return report
}

func names(results []ProbeResult) []string {
	var list []string
	for _, r := range results {
		list = append(list, r.Name)
	}
	return list
}

func TestProbe(t *testing.T) {
	b := newBox(t)
	r := b.probe(b.probeRequest())
	for _, p := range r.Failed() {
		t.Errorf("%s: %s", p.Name, p.Detail)
	}
	if n := len(r.Results); n < 50 {
		t.Errorf("%d results only", n)
	}
	if list := names(r.Results); len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
		t.Errorf("a name twice: %q", list)
	}
	if entries := b.sh("ls -A /workspace /tmp /run /dev/shm"); strings.Contains(entries, "probe") {
		t.Errorf("litter: %s", entries)
	}
	if n := b.programs(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// TestProbeNotices takes one part of the isolation away at a time: the probe
// of that part fails, and no other does.
func TestProbeNotices(t *testing.T) {
	rule := func(call int) string { return fmt.Sprintf("rule:%d", call) }
	for _, c := range []struct {
		weak []string
		want []string
	}{
		{[]string{"capabilities"}, []string{wire.ProbeInitCapabilities, wire.ProbeCapabilities}},
		{[]string{"no_new_privs"}, []string{wire.ProbeNoNewPrivs}},
		{[]string{"descriptor"}, []string{wire.ProbeInitDescriptors}},
		{[]string{"rootfs"}, []string{wire.ProbeRootfsReadOnly}},
		{[]string{"masks"}, []string{wire.ProbeProcMasked}},
		{[]string{"proc"}, []string{wire.ProbeProcReadOnly}},
		{[]string{"sys"}, []string{wire.ProbeSysReadOnly}},
		{[]string{rule(unix.SYS_CLONE)}, []string{wire.ProbeUserNamespace}},
		{[]string{rule(unix.SYS_UNSHARE)}, []string{wire.ProbeUserNamespace}},
		{[]string{rule(unix.SYS_FCHMODAT2)}, []string{wire.ProbeSetuidChmod}},
		{[]string{rule(unix.SYS_FCHMOD)}, []string{wire.ProbeSetuidChmod}},
		{[]string{rule(unix.SYS_OPENAT)}, []string{wire.ProbeSetuidOpen}},
		{[]string{rule(unix.SYS_MKNODAT)}, []string{wire.ProbeSetuidMknod}},
		{[]string{rule(unix.SYS_SOCKET)}, []string{wire.ProbeVsock, wire.ProbeSocketFamilies}},
		{[]string{rule(unix.SYS_CLONE3)}, []string{wire.ProbeClone3}},
		{[]string{rule(unix.SYS_OPENAT2)}, []string{wire.ProbeOpenat2}},
		{[]string{rule(unix.SYS_IO_URING_SETUP)}, []string{wire.ProbeIOUring}},
		{[]string{rule(unix.SYS_KEYCTL)}, []string{wire.ProbeKeyctl}},
		{[]string{rule(unix.SYS_USERFAULTFD)}, []string{wire.ProbeUserfaultfd}},
		{[]string{rule(unix.SYS_PERF_EVENT_OPEN)}, []string{wire.ProbePerfEvent}},
	} {
		t.Run(strings.Join(c.weak, "+"), func(t *testing.T) {
			b := newBox(t, func(s *stageConfig) { s.Weak = c.weak })
			got := names(b.probe(b.probeRequest()).Failed())
			slices.Sort(got)
			slices.Sort(c.want)
			if !slices.Equal(got, c.want) {
				t.Errorf("failed: %q, want %q", got, c.want)
			}
		})
	}
}

// TestProbeWithoutFilter: the engine forgot the profile.
func TestProbeWithoutFilter(t *testing.T) {
	b := newBox(t, func(s *stageConfig) { s.Weak = []string{"seccomp"} })
	got := names(b.probe(b.probeRequest()).Failed())
	for _, want := range []string{
		wire.ProbeSeccomp, wire.ProbeUserNamespace, wire.ProbeSetuidChmod, wire.ProbeSetuidOpen, wire.ProbeSetuidMknod,
		wire.ProbeClone3, wire.ProbeOpenat2,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("%s passed", want)
		}
	}
}

// TestProbeNetwork: a session that shares the host's network is noticed.
func TestProbeNetwork(t *testing.T) {
	b := newBox(t, func(s *stageConfig) { s.HostNetwork = true })
	got := names(b.probe(b.probeRequest()).Failed())
	if !slices.Contains(got, wire.ProbeInterfaces) && !slices.Contains(got, wire.ProbeAbstractSockets) {
		t.Errorf("failed: %q", got)
	}
}

// TestProbeRequest: what the request asks for is compared.
func TestProbeRequest(t *testing.T) {
	b := newBox(t)
	listener := b.exec(b.request("perl", "-MSocket", "-e",
		`socket(my $s, AF_UNIX, SOCK_STREAM, 0); bind($s, pack_sockaddr_un("/tmp/here.sock")) or die; listen($s, 1); $| = 1; print "up\n"; sleep 1000`))
	b.waitForOutput(listener)
	for name, c := range map[string]struct {
		change func(*ProbeRequest)
		want   string
	}{
		"writable":    {func(r *ProbeRequest) { r.Writable = append(r.Writable, "/usr") }, "writable/5"},
		"read only":   {func(r *ProbeRequest) { r.ReadOnly = append(r.ReadOnly, "/tmp") }, "read_only/4"},
		"not there":   {func(r *ProbeRequest) { r.ReadOnly = []string{"/nowhere"} }, "read_only/0"},
		"rlimit":      {func(r *ProbeRequest) { r.Rlimits[0].Hard = 100 }, "rlimit/0"},
		"host socket": {func(r *ProbeRequest) { r.HostSockets = []string{"/tmp/here.sock"} }, wire.ProbeHostSockets},
		"address":     {func(r *ProbeRequest) { r.TCP = []string{"nonsense"} }, wire.ProbeTCP},
	} {
		r := b.probeRequest()
		c.change(&r)
		if got := names(b.probe(r).Failed()); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: failed %q, want %s", name, got, c.want)
		}
		r.Waived = []string{c.want}
		report := b.probe(r)
		if len(report.Failed()) != 0 {
			t.Errorf("%s: waived and yet failed", name)
		}
		i := slices.IndexFunc(report.Results, func(p ProbeResult) bool { return p.Name == c.want })
		if p := report.Results[i]; p.OK || !p.Waived {
			t.Errorf("%s: a waived result is %+v", name, p)
		}
	}
	_, err := b.link.Probe(b.context(), ProbeRequest{UID: programUID, GID: programUID, Dir: "/nowhere"})
	if !errors.Is(err, unix.ENOENT) {
		t.Errorf("probes that could not start: %v", err)
	}
}

// TestProbeCgroup compares limits with what the cgroup shows.
func TestProbeCgroup(t *testing.T) {
	dir := cgroup(t, "pids", "pids.max", "pids.max", "77")
	b := newBox(t, func(c *stageConfig) { c.Cgroup, c.CgroupMount = dir, "pids" })
	r := b.probeRequest()
	r.PidsMax = 77
	if got := names(b.probe(r).Failed()); len(got) > 0 {
		t.Errorf("failed %q", got)
	}
	r.PidsMax = 78
	if got := names(b.probe(r).Failed()); !slices.Equal(got, []string{wire.ProbeCgroupPids}) {
		t.Errorf("failed %q", got)
	}
}

func BenchmarkProbe(b *testing.B) {
	box := newBox(b)
	r := box.probeRequest()
	for b.Loop() {
		box.probe(r)
	}
}
