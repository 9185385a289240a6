package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// fakeInit is a link whose other end the test plays.
func fakeInit(tb testing.TB) (*Link, *wire.Conn, int) {
	tb.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	near, err := wire.NewConn(pair[0])
	if err != nil {
		tb.Fatal(err)
	}
	far, err := wire.NewConn(pair[1])
	if err != nil {
		tb.Fatal(err)
	}
	l := newLink(near, &wire.Hello{PID: 1})
	tb.Cleanup(func() {
		l.Close()
		far.Close()
	})
	return l, far, pair[1]
}

// lostWithin waits for the end of a link.
func lostWithin(tb testing.TB, l *Link) error {
	tb.Helper()
	select {
	case <-l.Done():
		return l.Err()
	case <-time.After(20 * time.Second):
		tb.Fatal("the link lives on")
		return nil
	}
}

// say and spit send as far as the host still listens.
func say(c *wire.Conn, id uint32, m wire.Message, files ...int) { _ = c.Write(id, m, files...) }

func spit(raw int, b []byte, files ...int) {
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	_ = unix.Sendmsg(raw, b, oob, nil, unix.MSG_NOSIGNAL)
}

// TestHostileInit: whatever init sends that it must not, the link ends with a
// typed error, callers learn of it, and no descriptor stays.
func TestHostileInit(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	exited := &wire.Exited{Outcome: wire.OutcomeExited}
	for name, send := range map[string]func(c *wire.Conn, raw int){
		"answer to nothing":   func(c *wire.Conn, _ int) { say(c, 99, &wire.Reply{}) },
		"hello again":         func(c *wire.Conn, _ int) { say(c, 1, &wire.Hello{}) },
		"a request":           func(c *wire.Conn, _ int) { say(c, 1, &wire.Shutdown{}) },
		"exited, not started": func(c *wire.Conn, _ int) { say(c, 1, exited) },
		"started as 0":        func(c *wire.Conn, _ int) { say(c, 1, &wire.Started{}) },
		"started twice":       func(c *wire.Conn, _ int) { say(c, 1, &wire.Started{PID: 5}); say(c, 1, &wire.Started{PID: 5}) },
		"exited twice":        func(c *wire.Conn, _ int) { say(c, 1, &wire.Started{PID: 5}); say(c, 1, exited); say(c, 1, exited) },
		"not started after all": func(c *wire.Conn, _ int) {
			say(c, 1, &wire.Started{PID: 5})
			say(c, 1, &wire.Exited{Outcome: wire.OutcomeNotStarted})
		},
		"a list":              func(c *wire.Conn, _ int) { say(c, 1, &wire.Processes{}) },
		"files without a pty": func(c *wire.Conn, _ int) { say(c, 1, &wire.Started{PID: 5}, fd) },
		"exited with files":   func(c *wire.Conn, _ int) { say(c, 1, &wire.Started{PID: 5}); say(c, 1, exited, fd, fd) },
		"unknown type":        func(_ *wire.Conn, raw int) { spit(raw, []byte{0, 0, 0, 0, 200, 0, 1, 0, 0, 0, 0, 1}) },
		"other version":       func(_ *wire.Conn, raw int) { spit(raw, []byte{0, 0, 0, 0, 3, 0, 2, 0, 0, 0, 0, 1}) },
		"huge frame":          func(_ *wire.Conn, raw int) { spit(raw, []byte{255, 0, 0, 0, 3, 0, 1, 0, 0, 0, 0, 1}) },
		"missing files":       func(_ *wire.Conn, raw int) { spit(raw, []byte{0, 0, 0, 4, 4, 1, 1, 0, 0, 0, 0, 1, 0, 0, 0, 5}) },
		"too many files": func(_ *wire.Conn, raw int) {
			spit(raw, []byte{0}, fd, fd, fd, fd, fd, fd, fd, fd, fd, fd)
		},
		"files in every byte": func(_ *wire.Conn, raw int) {
			for range 12 {
				spit(raw, []byte{0}, fd, fd)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := openDescriptors(t)
			l, far, raw := fakeInit(t)
			calls := make(chan error, 1)
			go func() {
				p, err := l.Exec(context.Background(), ExecRequest{ID: "x", Argv: []string{"x"}, Dir: "/", HostUID: uint32(os.Getuid()), HostGID: uint32(os.Getgid())})
				if err == nil {
					_, err = p.Wait(context.Background())
					p.closeFiles()
				}
				calls <- err
			}()
			f, err := far.Read()
			if err != nil {
				t.Fatal(err)
			}
			wire.CloseFiles(f.Files)
			send(far, raw)
			err = lostWithin(t, l)
			if _, ok := errors.AsType[*ProtocolError](err); !ok {
				t.Errorf("link: %v", err)
			}
			if err := <-calls; err == nil && name != "exited twice" && name != "exited with files" {
				t.Error("the call succeeded")
			}
			far.Close()
			eventually(t, "all descriptors are closed", func() bool { return openDescriptors(t) <= before })
		})
	}
}

// TestHostileTerminal: init passes something that is no pty.
func TestHostileTerminal(t *testing.T) {
	l, far, _ := fakeInit(t)
	calls := make(chan error, 1)
	go func() {
		_, err := l.Exec(context.Background(), ExecRequest{ID: "x", Argv: []string{"x"}, Dir: "/", Tty: true})
		calls <- err
	}()
	if _, err := far.Read(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	say(far, 1, &wire.Started{PID: 2}, int(r.Fd()))
	r.Close()
	if _, ok := errors.AsType[*ProtocolError](lostWithin(t, l)); !ok {
		t.Errorf("link: %v", l.Err())
	}
	if err := <-calls; err == nil {
		t.Error("the call succeeded")
	}
}

// TestSilentInit: requests that are never answered end with their context, and
// there is a bound to how many wait.
func TestSilentInit(t *testing.T) {
	l, far, _ := fakeInit(t)
	go func() {
		for {
			f, err := far.Read()
			if err != nil {
				return
			}
			wire.CloseFiles(f.Files)
		}
	}()
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for range maxPending {
		if err := l.Kill(cancelled, "x"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := l.Kill(cancelled, "x"); !errors.Is(err, ErrBusy) {
		t.Errorf("over the bound: %v", err)
	}
	far.Close()
	if err := lostWithin(t, l); !errors.Is(err, ErrLost) {
		t.Errorf("link: %v", err)
	}
}

func openDescriptors(tb testing.TB) int {
	tb.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", os.Getpid()))
	if err != nil {
		tb.Fatal(err)
	}
	return len(entries)
}

// FuzzHostFrames feeds the host whatever an init could send, beside a program
// and a request that wait: nothing panics, everybody gets an outcome.
func FuzzHostFrames(f *testing.F) {
	for _, m := range []wire.Message{
		&wire.Started{PID: 7}, &wire.Exited{Outcome: wire.OutcomeExited, Code: 3}, &wire.Reply{Errno: 3},
		&wire.Exited{Outcome: wire.OutcomeNotStarted, Phase: "exec", Errno: 2}, &wire.Exited{Outcome: wire.OutcomeLost},
		&wire.Processes{Processes: []wire.ProcessInfo{{Call: "x", PID: 3, Name: "n"}}},
		&wire.Report{Results: []wire.ProbeResult{{Name: "seccomp", OK: true}}},
	} {
		payload, err := wire.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		one := wire.Append(nil, wire.Frame{Type: wire.TypeOf(m), ID: 1, Payload: payload})
		two := wire.Append(nil, wire.Frame{Type: wire.TypeOf(m), ID: 2, Payload: payload})
		f.Add(one)
		f.Add(append(one, two...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, far, raw := fakeInit(t)
		p := &Process{link: l, id: "x", started: make(chan struct{}), done: make(chan struct{})}
		if err := l.send(p, &wire.List{}); err != nil {
			t.Fatal(err)
		}
		r := &request{want: wire.TypeProcesses, answer: make(chan wire.Message, 1)}
		if err := l.send(r, &wire.List{}); err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			n, err := unix.Write(raw, b)
			if err != nil && err != unix.EAGAIN {
				break // the host has closed the link
			}
			b = b[max(n, 0):]
		}
		far.Close()
		if lostWithin(t, l) == nil {
			t.Error("a link that ended has no error")
		}
		<-p.done
		if st, err := p.Wait(context.Background()); err == nil && st.Exited && st.Signal != 0 && st.Code != 0 {
			t.Logf("%+v", st)
		}
		<-r.answer
	})
}
