package pid1

import (
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

func TestParseStat(t *testing.T) {
	for stat, want := range map[string]process{
		"7 (sh) S 3 7 7 0 -1":            {7, 3, 'S', "sh"},
		"7 (a b) c) Z 1 7 7 0":           {7, 1, 'Z', "a b) c"},
		"123456 (() (R 1) R 99 1 ":       {123456, 99, 'R', "() (R 1"},
		"7 () T 2 ":                      {7, 2, 'T', ""},
		"7 (new\nline) 4 5) D 8 9":       {7, 8, 'D', "new\nline) 4 5"},
		"7 (\xff\xfe) I 0 0 0 0 -1 6922": {7, 0, 'I', "\xff\xfe"},
	} {
		if got, ok := parseStat([]byte(stat)); !ok || got != want {
			t.Errorf("%q: got %+v, %v", stat, got, ok)
		}
	}
	for _, stat := range []string{"", "7", "7 (sh", "7 (sh)", "7 (sh) S", "7 (sh) S x ", "x (sh) S 1 ", ") S 1 (", "(sh) S 1 2"} {
		if got, ok := parseStat([]byte(stat)); ok {
			t.Errorf("%q: accepted as %+v", stat, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (sh) S 3 7 7"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && !strings.Contains(string(b), "("+p.name+")") {
			t.Errorf("%q: name %q", b, p.name)
		}
	})
}

func TestTable(t *testing.T) {
	table, err := readTable()
	if err != nil {
		t.Fatal(err)
	}
	self := func(p process) bool { return p.pid == os.Getpid() }
	if !slices.ContainsFunc(table[os.Getppid()], self) {
		t.Error("this process is not below its parent")
	}
	tree := map[int][]process{1: {{pid: 2}, {pid: 3}}, 3: {{pid: 4}}, 4: {{pid: 5}}, 9: {{pid: 10}}}
	var order []int
	table = tree
	table.below(1, func(p process) { order = append(order, p.pid) })
	if !slices.Equal(order, []int{2, 3, 4, 5}) || table.count(3) != 2 || table.count(5) != 0 {
		t.Errorf("below 1: %v", order)
	}
}

func TestSearchPath(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want string
	}{
		{nil, defaultPath},
		{[]string{"PATHS=/x", "A=PATH=/y"}, defaultPath},
		{[]string{"PATH=/a", "PATH=/b"}, "/b"},
		{[]string{"PATH="}, ""},
	} {
		if got := searchPath(c.env); got != c.want {
			t.Errorf("%q: got %q, want %q", c.env, got, c.want)
		}
	}
}

func TestMainRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"realm-init"}, {"realm-init", ""}, {"realm-init", "relative"}, {"realm-init", "/run/link.sock"}, {"a", "b", "c"}} {
		if got := Main(args); got != 1 {
			t.Errorf("%q: exit status %d", args, got)
		}
	}
}

// newTestLink is a link of a supervisor that can start nothing.
func newTestLink(t *testing.T) (*link, *wire.Conn, int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, err := wire.NewConn(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	far, err := wire.NewConn(fds[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		near.Close()
		near.Discard()
		far.Close()
	})
	s := &supervisor{
		pool:  &pool{spawn: func() (*shim, error) { return nil, unix.EAGAIN }},
		oom:   oomCounter{-1},
		calls: map[string]*call{},
	}
	return &link{s: s, conn: near, slots: make(chan struct{}, maxRequests)}, far, fds[1]
}

// TestNoShim: what cannot be started is told, and forgotten.
func TestNoShim(t *testing.T) {
	l, far, _ := newTestLink(t)
	served := make(chan error, 1)
	go func() { served <- l.serve() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	for id := range uint32(5) {
		if err := far.Write(id, &wire.Exec{Call: "same", Argv: []string{"true"}, Dir: "/"}, fd, fd, fd); err != nil {
			t.Fatal(err)
		}
		f, err := far.Read()
		if err != nil || f.ID != id {
			t.Fatalf("%+v, %v", f, err)
		}
		m, err := wire.Decode(f.Type, f.Payload)
		got, ok := m.(*wire.Exited)
		if err != nil || !ok || got.Outcome != wire.OutcomeNotStarted || got.Phase != phaseSupervisor || got.Errno != uint32(unix.EAGAIN) {
			t.Errorf("%+v, %v", m, err)
		}
	}
	if calls := l.s.live(); len(calls) != 0 {
		t.Errorf("%d calls are left", len(calls))
	}
	if err := far.Write(9, &wire.Exec{Call: "x", Argv: []string{"true"}, Dir: "/"}, fd); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err == nil || errors.Is(err, io.EOF) {
		t.Errorf("wrong descriptors: %v", err)
	}
}

// FuzzInitFrames feeds init whatever a host could send: it never panics, ends
// its side, and keeps no call.
func FuzzInitFrames(f *testing.F) {
	for _, m := range []wire.Message{
		&wire.Exec{Call: "c", Argv: []string{"true"}, Dir: "/", TTY: true}, &wire.Kill{Call: "c"}, &wire.Signal{Call: "c", Signal: 9},
		&wire.List{}, &wire.Probe{}, &wire.Reset{}, &wire.Shutdown{}, &wire.Welcome{}, &wire.Reply{},
	} {
		payload, err := wire.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		b := wire.Append(nil, wire.Frame{Type: wire.TypeOf(m), ID: 3, Payload: payload})
		f.Add(b)
		f.Add(append(b, b...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, far, raw := newTestLink(t)
		served := make(chan error, 1)
		go func() { served <- l.serve() }()
		go func() { // a host that reads everything
			for {
				if _, err := far.Read(); err != nil {
					return
				}
			}
		}()
		for len(b) > 0 {
			n, err := unix.Write(raw, b)
			if err != nil && err != unix.EAGAIN {
				break
			}
			b = b[max(n, 0):]
		}
		_ = unix.Shutdown(raw, unix.SHUT_WR)
		select {
		case err := <-served:
			if err == nil {
				t.Error("ended without an error")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("serves for ever")
		}
		for deadline := time.Now().Add(20 * time.Second); len(l.s.live()) > 0; {
			if time.Now().After(deadline) {
				t.Fatal("a call stays")
			}
		}
	})
}
