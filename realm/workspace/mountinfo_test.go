package workspace

import (
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"realm.dev/container"
)

const hourLater = time.Hour

func unixTime(st unix.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }

func TestVisibleMount(t *testing.T) {
	const info = `100 50 0:1 / / rw - overlay overlay rw
101 100 8:1 /ws /ws rw,nosuid - ext4 /dev/a rw
102 101 8:1 /ws/.git/config /ws/.git/config ro - ext4 /dev/a rw
103 101 8:1 /ws/a\040b /ws/a\040b ro shared:1 - ext4 /dev/a rw
104 101 8:1 /ws/p /ws/p rw - ext4 /dev/a rw
105 104 8:1 /ws/p/x /ws/p/x ro - ext4 /dev/a rw
106 104 8:1 /ws/p /ws/p rw - ext4 /dev/a rw
`
	all, err := parseMountinfo([]byte(info))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"/": 100, "/etc": 100, "/ws": 101, "/wsx": 100, "/ws/src": 101, "/ws/.git/config": 102, "/ws/.git": 101, "/ws/a b": 103,
		"/ws/p/x": 106, // mounted over: 105 is below the new mount of /ws/p
	} {
		if m, ok := visibleMount(all, name); !ok || m.id != want {
			t.Errorf("%s lies on %d, want %d", name, m.id, want)
		}
	}
	for dst, want := range map[string]bool{"/ws/.git/config": true, "/ws/a b": true, "/ws/p/x": false, "/ws/p": false, "/ws": false, "/ws/none": false} {
		if got := inForce(all, container.Bind{Destination: dst}); got != want {
			t.Errorf("%s read-only in force: %v", dst, got)
		}
	}
	if !inForce(all, container.Bind{Destination: "/ws/p", Write: true}) {
		t.Error("a writable bind needs no ro")
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`/a\040b\134c\011\012`: "/a b\\c\t\n", `/a\`: `/a\`, `/a\9999`: `/a\9999`, `/a\04`: `/a\04`} {
		if diff := cmp.Diff(want, unescape(in)); diff != "" {
			t.Errorf("%s: %s", in, diff)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	own, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(own, "/tmp")
	f.Add([]byte("1 1 0:1 / / ro - x x x\n2 1 0:1 / /a ro - x x x\n1 2 0:1 / /a rw - x x x"), "/a/b")
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		all, err := parseMountinfo(data)
		if err != nil {
			return
		}
		if m, ok := visibleMount(all, name); ok && !contains(m.point, name) && m.point != "/" {
			t.Fatalf("%q lies on %q", name, m.point)
		}
	})
}
