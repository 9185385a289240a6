package guest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal reads what a program prints to its terminal.
type terminal struct {
	b    *box
	p    *Process
	seen bytes.Buffer
}

func (b *box) terminal(argv ...string) *terminal {
	b.tb.Helper()
	r := b.request(argv...)
	r.Tty, r.Rows, r.Cols = true, 30, 100
	r.Env = append(r.Env, "TERM=dumb", "PS1=$ ")
	return &terminal{b: b, p: b.exec(r)}
}

// expect reads until want has been printed, and forgets what came before it.
func (t *terminal) expect(want string) {
	t.b.tb.Helper()
	setReadDeadline(t.b.tb, t.p.Stdout, time.Now().Add(20*time.Second))
	buf := make([]byte, 4096)
	for !strings.Contains(t.seen.String(), want) {
		n, err := t.p.Stdout.Read(buf)
		t.seen.Write(buf[:n])
		if err != nil {
			t.b.tb.Fatalf("expecting %q: %v, after %q", want, err, t.seen.String())
		}
	}
	_, rest, _ := strings.Cut(t.seen.String(), want)
	t.seen.Reset()
	t.seen.WriteString(rest)
}

func (t *terminal) send(text string) {
	t.b.tb.Helper()
	if _, err := t.p.Stdin.Write([]byte(text)); err != nil {
		t.b.tb.Fatal(err)
	}
}

func TestTerminal(t *testing.T) {
	b := newBox(t)
	term := b.terminal("sh", "-c", `tty; stty size; stat -c %u $(tty); trap 'stty size' WINCH; echo ready; while :; do sleep 0.02; done`)
	term.expect("/dev/pts/")
	term.expect("30 100\r\n1000\r\nready")
	if err := term.p.Resize(40, 132); err != nil {
		t.Fatal(err)
	}
	term.expect("40 132")
	term.send("\x03")
	if st := b.wait(term.p); st.Exited || st.Signal != unix.SIGINT {
		t.Errorf("after ^C: %+v", st)
	}
	buf := make([]byte, 64)
	for {
		if _, err := term.p.Stdout.Read(buf); err != nil {
			if !errors.Is(err, unix.EIO) {
				t.Errorf("the end of the terminal: %v", err)
			}
			return
		}
	}
}

func TestJobControl(t *testing.T) {
	b := newBox(t)
	term := b.terminal("bash", "--norc", "--noprofile", "-i")
	term.send("echo be''gin\n")
	term.expect("begin\r\n")
	if strings.Contains(term.seen.String(), "no job control") {
		t.Fatal("no job control")
	}
	term.send("sleep 1000\n")
	eventually(t, "the job has the terminal", func() bool { // before its exec
		return slices.ContainsFunc(b.hostProcesses(), func(p hostProcess) bool { return p.name == "sleep" })
	})
	term.send("\x1a") // ^Z
	term.expect("Stopped")
	term.send("bg; jobs; kill %1; wait %1; echo co''de $?\n")
	term.expect("Running")
	term.expect("code 143")
	term.send("exit 4\n")
	if st := b.wait(term.p); st.Code != 4 {
		t.Errorf("%+v", st)
	}
}

// TestTerminalKill: everything ends, whatever session or group it put itself in.
func TestTerminalKill(t *testing.T) {
	b := newBox(t)
	term := b.terminal("bash", "--norc", "--noprofile", "-ic", "sleep 1000 & setsid sleep 1000 & echo up; wait")
	term.expect("up")
	if err := term.p.Kill(b.context()); err != nil {
		t.Fatal(err)
	}
	if n := b.programs(); n != 0 {
		t.Errorf("%d programs are left", n)
	}
	if err := b.exec(b.request("true")).Resize(1, 1); err == nil {
		t.Error("resized without a terminal")
	}
}
