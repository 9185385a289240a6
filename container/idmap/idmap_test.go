package idmap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("idmapped mounts need root")
	}
}

func TestSupported(t *testing.T) {
	needRoot(t)
	// Every kernel of this decade maps tmpfs (6.3), and none maps proc.
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, tt := range []struct {
		dir  string
		want bool
	}{{dir, kernelAtLeast(t, 6, 3)}, {"/proc", false}} {
		got, err := Supported(tt.dir)
		if err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v, want %v", tt.dir, got, err, tt.want)
		}
	}
	if _, err := Supported(filepath.Join(dir, "absent")); contract.CodeOf(err) != contract.Internal {
		t.Errorf("absent: got %v, want INTERNAL", err)
	}
}

func kernelAtLeast(t *testing.T, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var a, b int
	for i, field := range strings.SplitN(unix.ByteSliceToString(u.Release[:]), ".", 3)[:2] {
		n := 0
		for _, c := range field {
			if c < '0' || c > '9' {
				break
			}
			n = n*10 + int(c-'0')
		}
		if i == 0 {
			a = n
		} else {
			b = n
		}
	}
	return a > major || a == major && b >= minor
}

func TestSupportedLeavesNothing(t *testing.T) {
	needRoot(t)
	before := descriptors(t)
	for range 20 {
		if _, err := Supported(t.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestAcquire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ids")
	a, err := Acquire(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Acquire(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a.Base%Size != 0 || b.Base < a.Base+Size {
		t.Errorf("the ranges %#x and %#x overlap", a.Base, b.Base)
	}
	if _, err := Adopt(dir, a.Base); contract.CodeOf(err) != contract.Internal {
		t.Errorf("adopting a range that is held: got %v", err)
	}
	if err := a.Release(); err != nil {
		t.Fatal(err)
	}
	if err := a.Release(); err != nil {
		t.Errorf("the second release: %v", err)
	}
	// A live session of a realm that has ended still has its range.
	c, err := Acquire(dir, func(base uint32) bool { return base == a.Base })
	if err != nil {
		t.Fatal(err)
	}
	if c.Base == a.Base || c.Base == b.Base {
		t.Errorf("%#x was given twice", c.Base)
	}
	d, err := Adopt(dir, a.Base)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Range{b, c, d} {
		if err := r.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestAcquireFull(t *testing.T) {
	_, err := Acquire(t.TempDir(), func(uint32) bool { return true })
	if contract.CodeOf(err) != contract.LimitExceeded {
		t.Fatalf("got %v, want LIMIT_EXCEEDED", err)
	}
}

func TestSpanIsOutsideOfWhatHostsUse(t *testing.T) {
	for name, used := range map[string]span{
		"users and subordinate ids": {0, 600_100_000},
		"systemd-nspawn":            {0x8_0000, 0x6fff_ffff},
		"directory services":        {200_000, 2_000_200_000},
		"foreign images":            {0x7ffe_0000, 0x7ffe_ffff},
		"signed ids":                {1 << 31, 1<<32 - 1},
	} {
		if used.first <= spanLast && spanFirst <= used.last {
			t.Errorf("the span overlaps %s", name)
		}
	}
	if n := (spanLast - spanFirst + 1) / Size; n < 2048 {
		t.Errorf("%d ranges: fewer than the containers that Podman has locks for", n)
	}
}

func TestHostIDs(t *testing.T) {
	etc := t.TempDir()
	for name, text := range map[string]string{
		"subuid": "u:100000:65536\ncontainers:2147483647:2147483648\nbroken\nx:y:z\nempty:1:0\n",
		"passwd": "root:x:0:0::/root:/bin/sh\nfar:x:2000700000:1::/:/bin/sh\nneg:x:-1:1::/:/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := hostIDs(etc)
	if err != nil {
		t.Fatal(err)
	}
	want := []span{{100000, 165535}, {2147483647, 4294967294}, {0, 0}, {2000700000, 2000700000}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(span{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !overlaps(got, spanFirst) || overlaps(got, spanFirst+Size) {
		t.Error("the range of a host user was not found taken, or another one was")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("u:100000:65536\n", true)
	f.Add("root:x:0:0::/root:/bin/sh\n", false)
	f.Fuzz(func(t *testing.T, text string, subordinate bool) {
		taken, err := parse(strings.NewReader(text), subordinate)
		if err != nil {
			return
		}
		for _, s := range taken {
			if s.last < s.first || s.first > 1<<32-1 {
				t.Errorf("%+v is no range of ids", s)
			}
		}
	})
}
