package probe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		err    error
		ok     bool
		detail string
	}{
		{nil, false, "allowed"},
		{unix.EPERM, true, "refused: EPERM"},
		{unix.ENETUNREACH, true, "refused: ENETUNREACH"},
		{unix.EINVAL, false, "not refused: EINVAL"},
		{unix.EFAULT, false, "not refused: EFAULT"},
		{errors.New("text of the kernel"), true, "refused: unknown error"},
	} {
		if got := refused(c.err); got != (result{c.ok, c.detail}) {
			t.Errorf("%v: %+v", c.err, got)
		}
	}
	if got := refusedWith(unix.EACCES, unix.EPERM); got.ok {
		t.Errorf("another error: %+v", got)
	}
	if got := worst(pass("a"), bad("b"), pass("c")); got != bad("b") {
		t.Errorf("worst: %+v", got)
	}
	if worst().ok {
		t.Error("nothing at all passes")
	}
}

func TestUserMap(t *testing.T) {
	for content, ok := range map[string]bool{
		"         0     100000      65536\n":    true,
		"0 1 1000\n1000 0 1\n1001 1001 64536\n": true, // rootless keep-id
		"         0          0 4294967295\n":    false,
		"":                                      false,
		"nonsense\n":                            false,
		"0 0 many\n":                            false,
		"0 100000 65536\n4294967294 4294967294 4294967295\n":  false,
		"0 2000683008 65536\n65536 2000748544 18446744073709": true,
	} {
		if got := userMap(file(t, content)); got.ok != ok {
			t.Errorf("%q: %+v", content, got)
		}
	}
	if userMap("/no/such/file").ok {
		t.Error("a map that cannot be read passes")
	}
}

func TestCapabilities(t *testing.T) {
	none := map[string]string{"CapInh": "0", "CapPrm": "0", "CapEff": "0", "CapAmb": "0", "CapBnd": "00000000000000e0"}
	if got := noCapabilities(none); !got.ok {
		t.Errorf("%+v", got)
	}
	for key, value := range map[string]string{"CapInh": "1", "CapEff": "20", "CapPrm": "8", "CapAmb": "1", "CapBnd": "e1"} {
		st := map[string]string{}
		for k, v := range none {
			st[k] = v
		}
		st[key] = value
		if noCapabilities(st).ok {
			t.Errorf("%s %s passes", key, value)
		}
		delete(st, key)
		if noCapabilities(st).ok || initCapabilities(st).ok {
			t.Errorf("without %s passes", key)
		}
	}
	if noCapabilities(nil).ok || initCapabilities(nil).ok {
		t.Error("a status that cannot be read passes")
	}
}

func TestRoutes(t *testing.T) {
	heading := "Iface\tDestination\tGateway\n"
	for _, c := range []struct {
		content          string
		headings, column int
		ok               bool
	}{
		{heading, 1, 0, true},
		{heading + "eth0\t00000000\t0100000A\n", 1, 0, false},
		{"", 0, 9, true},
		{"0 80 0 0 0 0 0 0 0 lo\n", 0, 9, true},
		{"0 80 0 0 0 0 0 0 0 lo\n0 80 0 0 0 0 0 0 0 eth0\n", 0, 9, false},
		{"short\n", 0, 9, false},
	} {
		if got := routes(file(t, c.content), c.headings, c.column); got.ok != c.ok {
			t.Errorf("%q: %+v", c.content, got)
		}
	}
}

func TestKernelMounts(t *testing.T) {
	const root = "1 0 0:1 / / ro,relatime - ext4 /dev/x rw\n"
	for content, ok := range map[string]bool{
		root: true,
		root + "2 1 0:2 / /sys ro,nosuid - sysfs sysfs rw\n":                                                           true,
		root + "2 1 0:2 / /sys rw,nosuid - sysfs sysfs ro\n":                                                           false, // the mount counts
		root + "2 1 0:2 / /sys ro - sysfs sysfs rw\n3 2 0:3 / /sys/fs/cgroup rw,nosuid shared:3 - cgroup2 cgroup rw\n": false,
		root + "3 2 0:3 / /a rw - cgroup x rw,memory\n":                                                                false,
		root + "3 2 0:3 / /sys/fs/cgroup rw - tmpfs cgroup rw\n":                                                       true,
		"nonsense\n": false,
	} {
		if got := kernelMounts(file(t, content)); got.ok != ok {
			t.Errorf("%q: %+v", content, got)
		}
	}
}

func TestDNS(t *testing.T) {
	q := question("a.example")
	want := "\x72\x65\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01"
	if string(q) != want {
		t.Errorf("question: %q", q)
	}
	for content, ok := range map[string]bool{
		"\x72\x65\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00": true,  // NXDOMAIN
		"\x72\x65\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00": false, // an answer
		"\x00\x00\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00": false, // to another question
		"\x72\x65": false,
		"":         false,
	} {
		if got := answer([]byte(content)); got.ok != ok {
			t.Errorf("%q: %+v", content, got)
		}
	}
}

func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := file(t, "")
	for _, p := range []string{dir, path} {
		if !writable(p).ok || readOnly(p).ok {
			t.Errorf("%s: %+v, %+v", p, writable(p), readOnly(p))
		}
	}
	if writable("/no/such").ok || readOnly("/no/such").ok {
		t.Error("what is not there passes")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("litter: %v, %v", entries, err)
	}
	if empty(file(t, "x")).ok || !empty(file(t, "")).ok || !empty(dir).ok || empty(filepath.Dir(path)).ok {
		t.Error("masks")
	}
}

func TestWaive(t *testing.T) {
	results := []wire.ProbeResult{{Name: "a"}, {Name: "b/0"}, {Name: "b/1"}, {Name: "c/0"}, {Name: "c/1"}}
	got := Waive(results, []string{"b", "c/1", "none"})
	for i, waived := range []bool{false, true, true, false, true} {
		if got[i].Waived != waived {
			t.Errorf("%+v", got[i])
		}
	}
}
