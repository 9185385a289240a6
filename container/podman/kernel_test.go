package podman

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runtime-spec/specs-go"
	"realm.dev/container"
	"realm.dev/contract"
)

func TestIDMaps(t *testing.T) {
	m, err := parseIDs("         0     200000       1000\n      1000       2001          1\n      1001     201000      64535\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 200000, Size: 1000}, {ContainerID: 1000, HostID: 2001, Size: 1}, {ContainerID: 1001, HostID: 201000, Size: 64535}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for id, want := range map[uint32]uint32{0: 200000, 999: 200999, 1000: 2001, 1001: 201000, 65535: 265534} {
		if got, ok := hostID(m, id); !ok || got != want {
			t.Errorf("%d is %d, want %d", id, got, want)
		}
	}
	if _, ok := hostID(m, 65536); ok {
		t.Error("an id outside of the map has a host id")
	}
	if reachesRoot(m) {
		t.Error("the map reaches root")
	}
	for _, text := range []string{"0 0 4294967295\n", "0 100000 10\n10 0 1\n"} {
		if m, err := parseIDs(text); err != nil || !reachesRoot(m) {
			t.Errorf("%q does not reach root (%v)", text, err)
		}
	}
	if _, err := parseIDs("0 x 1\n"); err == nil {
		t.Error("noise is a map")
	}
}

func FuzzParseIDs(f *testing.F) {
	f.Add("0 200000 1000\n", uint32(5))
	f.Add("0 0 4294967295\n", uint32(0))
	f.Fuzz(func(t *testing.T, text string, id uint32) {
		m, err := parseIDs(text)
		if err != nil {
			return
		}
		if host, ok := hostID(m, id); ok && host == 0 && !reachesRoot(m) {
			// A range may wrap around at the top; the kernel refuses those.
			for _, r := range m {
				if uint64(r.HostID)+uint64(r.Size) > 1<<32 {
					return
				}
			}
			t.Errorf("%q: %d is root, and nothing reaches it", text, id)
		}
	})
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{
		"max": math.Inf(1), "unlimited": math.Inf(1), "-1": math.Inf(1), "9223372036854771712": math.Inf(1), "18446744073709551615": math.Inf(1),
		"0": 0, "268435456": 1 << 28,
	} {
		if got, err := number(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
	if _, err := number("x"); err == nil {
		t.Error("noise is a number")
	}
}

func TestFindCgroup(t *testing.T) {
	v1 := []*mountinfo.Info{
		{FSType: "cgroup", Root: "/", Mountpoint: "/sys/fs/cgroup/memory", VFSOptions: "rw,memory"},
		{FSType: "cgroup", Root: "/outer", Mountpoint: "/sys/fs/cgroup/cpu,cpuacct", VFSOptions: "rw,cpu,cpuacct"},
		{FSType: "cgroup", Root: "/", Mountpoint: "/sys/fs/cgroup/systemd", VFSOptions: "rw,xattr,name=systemd"},
	}
	got := findCgroup("9:memory:/libpod/c\n4:cpu,cpuacct:/outer/c\n3:pids:/c\n1:name=systemd:/s\n0::/\n", v1)
	want := map[string]string{"memory": "/sys/fs/cgroup/memory/libpod/c", "cpu": "/sys/fs/cgroup/cpu,cpuacct/c", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/c"}
	if diff := cmp.Diff(want, got.legacy); diff != "" || got.v2 != "" {
		t.Errorf("%q (-want +got):\n%s", got.v2, diff)
	}
	v2 := []*mountinfo.Info{{FSType: "cgroup2", Root: "/", Mountpoint: "/sys/fs/cgroup"}}
	got = findCgroup("0::/user.slice/libpod-1.scope/container\n", v2)
	if got.v2 != "/sys/fs/cgroup/user.slice/libpod-1.scope/container" || len(got.legacy) != 0 {
		t.Errorf("got %+v", got)
	}
	other := []*mountinfo.Info{{FSType: "cgroup2", Root: "/other", Mountpoint: "/sys/fs/cgroup"}}
	if got = findCgroup("0::/otherwise/c\n", other); got.v2 != "" {
		t.Errorf("a cgroup outside of the mount is at %s", got.v2)
	}
}

// files makes a directory with control files.
func files(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCgroupValues(t *testing.T) {
	v2 := cgroup{v2: files(t, map[string]string{"memory.max": "1073741824\n", "memory.swap.max": "0\n", "pids.max": "512\n", "cpu.max": "150000 100000\n"})}
	v1 := files(t, map[string]string{
		"memory.limit_in_bytes": "1073741824\n", "memory.memsw.limit_in_bytes": "1073741824\n", "pids.max": "512\n",
		"cpu.cfs_quota_us": "150000\n", "cpu.cfs_period_us": "100000\n",
	})
	for name, c := range map[string]cgroup{"v2": v2, "v1": {legacy: map[string]string{"memory": v1, "cpu": v1, "pids": v1}}} {
		memory, err1 := c.memory()
		pids, err2 := c.value("pids", "pids.max", "pids.max")
		cpus, err3 := c.cpus()
		if memory != 1<<30 || pids != 512 || cpus != 1.5 {
			t.Errorf("%s: %v, %v, %v (%v, %v, %v)", name, memory, pids, cpus, err1, err2, err3)
		}
	}
	swaps := cgroup{v2: files(t, map[string]string{"memory.max": "1024\n", "memory.swap.max": "max\n"})}
	if memory, err := swaps.memory(); err != nil || !math.IsInf(memory, 1) {
		t.Errorf("memory that can be swapped without end: %v, %v", memory, err)
	}
	open := cgroup{v2: files(t, map[string]string{"cpu.max": "max 100000\n"})}
	if cpus, err := open.cpus(); err != nil || !math.IsInf(cpus, 1) {
		t.Errorf("cpus without a limit: %v, %v", cpus, err)
	}
	if _, err := (cgroup{}).memory(); err == nil {
		t.Error("no cgroup has a limit")
	}
}

func TestApplied(t *testing.T) {
	for _, tt := range []struct {
		name  string
		found float64
		err   error
		by    string
		force bool
	}{
		{"equal", 100, nil, "cgroup", true},
		{"lower", 50, nil, "cgroup", true},
		{"higher", 101, nil, "cgroup", false},
		{"none", math.Inf(1), nil, "cgroup", false},
		{"not a number", math.NaN(), nil, "cgroup", false},
		{"unreadable", 0, os.ErrNotExist, "cgroup", false},
		{"a page", float64(os.Getpagesize()), nil, "tmpfs", true},
	} {
		row := applied("x", 100, tt.by, "why")(tt.found, tt.err)
		if (row.InForce != nil) != tt.force || !tt.force && row.Detail != "why" {
			t.Errorf("%s: %+v", tt.name, row)
		}
	}
}

func TestEnforced(t *testing.T) {
	n := 1.0
	ok, missing := contract.AppliedLimit{Name: "memoryBytes", InForce: &n}, contract.AppliedLimit{Name: "memoryBytes", Detail: "no controller"}
	pids := contract.AppliedLimit{Name: "pids"}
	for name, tt := range map[string]struct {
		limits  []contract.AppliedLimit
		allowed []string
		want    contract.Code
	}{
		"all":             {[]contract.AppliedLimit{ok}, nil, ""},
		"no memory":       {[]contract.AppliedLimit{missing}, nil, contract.IsolationUnproven},
		"memory allowed":  {[]contract.AppliedLimit{missing}, []string{"memory"}, ""},
		"another allowed": {[]contract.AppliedLimit{missing}, []string{"pids", "memoryBytes"}, contract.IsolationUnproven},
		"no pids":         {[]contract.AppliedLimit{ok, pids}, []string{"memory"}, contract.IsolationUnproven},
		"cpus may lack":   {[]contract.AppliedLimit{ok, {Name: "cpus"}}, nil, ""},
	} {
		if err := enforced(tt.limits, tt.allowed); contract.CodeOf(err) != tt.want {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// TestWeAreNotConfined: a process outside of a container must not pass.
func TestWeAreNotConfined(t *testing.T) {
	p := processOf(os.Getpid())
	wantUnproven(t, "this process", confined(p, sample(), true))
	if ownNamespaces(p) {
		t.Error("our namespaces are not ours")
	}
	wantUnproven(t, "no process", confined(processOf(1<<30), sample(), true))
}

func TestProgramsAre(t *testing.T) {
	kept := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 200000, Size: 1000}, {ContainerID: 1000, HostID: 2001, Size: 1}}
	private := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 0x77400000, Size: 65536}}
	for name, tt := range map[string]struct {
		ids      []specs.LinuxIDMapping
		user     container.User
		rootless bool
		want     bool
	}{
		"keep-id":              {kept, container.User{OwnerUID: 2001, OwnerGID: 2001}, true, true},
		"another owner":        {kept, container.User{OwnerUID: 2002, OwnerGID: 2001}, true, false},
		"a private range":      {private, container.User{Base: 0x77400000, Idmap: true}, false, true},
		"another range":        {private, container.User{Base: 0x77410000, Idmap: true}, false, false},
		"root in a range":      {private, container.User{Base: 0x77400000, Idmap: true, Root: true}, false, true},
		"no map for programs":  {kept[:1], container.User{OwnerUID: 2001, OwnerGID: 2001}, true, false},
		"range instead of own": {private, container.User{OwnerUID: 2001, OwnerGID: 2001, Base: 0x77400000}, false, false},
	} {
		if got := programsAre(tt.ids, tt.ids, tt.user, tt.rootless); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
