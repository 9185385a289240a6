package cli_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// terminal is a person's: a real pty with realm in front of it, as the leader
// of the terminal's session.
type terminal struct {
	t      *testing.T
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File // kept open, to look at the modes after realm is gone
	before unix.Termios
	ended  chan error

	mu     sync.Mutex
	screen bytes.Buffer
}

func (i *installed) terminal(t *testing.T, args ...string) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, cmd: i.command(args...), master: pollable(t, master), slave: slave, ended: make(chan error, 1)}
	term.resize(24, 80)
	term.before = term.modes()
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go term.watch()
	go func() { term.ended <- term.cmd.Wait() }()
	t.Cleanup(func() {
		_ = term.cmd.Process.Kill()
		_ = term.master.Close()
		_ = slave.Close()
	})
	return term
}

// pollable returns f with reads that do not keep it open when it is closed.
func pollable(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// watch is the person's eyes.
func (term *terminal) watch() {
	p := make([]byte, 4096)
	for {
		n, err := term.master.Read(p)
		term.mu.Lock()
		term.screen.Write(p[:n])
		term.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (term *terminal) text() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.screen.String()
}

func (term *terminal) sees(what string) {
	term.t.Helper()
	for deadline := time.Now().Add(patience); !strings.Contains(term.text(), what); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			term.t.Fatalf("never seen: %q; the screen:\n%s", what, term.text())
		}
	}
}

func (term *terminal) types(keys string) {
	term.t.Helper()
	if _, err := term.master.WriteString(keys); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) resize(rows, cols uint16) {
	term.t.Helper()
	if err := pty.Setsize(term.master, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		term.t.Fatal(err)
	}
}

func (term *terminal) modes() unix.Termios {
	term.t.Helper()
	m, err := unix.IoctlGetTermios(int(term.slave.Fd()), unix.TCGETS)
	if err != nil {
		term.t.Fatal(err)
	}
	return *m
}

// endsWith waits for realm's end, its exit code, and the terminal as it was.
func (term *terminal) endsWith(code int) {
	term.t.Helper()
	select {
	case err := <-term.ended:
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		}
		if got != code {
			term.t.Errorf("ended with %d, want %d; the screen:\n%s", got, code, term.text())
		}
	case <-time.After(patience):
		term.t.Fatalf("realm did not end; the screen:\n%s", term.text())
	}
	term.restored()
}

// restored waits for the terminal to be as it was found.
func (term *terminal) restored() {
	term.t.Helper()
	eventually(term.t, "a restored terminal", func() bool { return cmp.Equal(term.before, term.modes()) })
}

// reading collects what a command prints.
type reading struct {
	t   *testing.T
	mu  sync.Mutex
	buf bytes.Buffer
}

func startReading(t *testing.T, cmd *exec.Cmd) *reading {
	t.Helper()
	r := &reading{t: t}
	cmd.Stdout, cmd.Stderr = r, r
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return r
}

func (r *reading) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *reading) waitFor(what string) {
	r.t.Helper()
	eventually(r.t, what, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return strings.Contains(r.buf.String(), what)
	})
}
