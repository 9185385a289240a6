package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// stopped checks that the only session is over and nothing of it is left.
func (i *installed) stopped(t *testing.T) contract.SessionDetail {
	t.Helper()
	d := i.only(t)
	if d.Record.State != contract.Stopped {
		t.Errorf("the session is %s", d.Record.State)
	}
	i.nothingLeft(t)
	return d
}

func TestTerminalIsTheCommands(t *testing.T) {
	i := install(t)
	term := i.terminal(t, "run", limits, "--", "sh", "-c", `
		test -t 0 && test -t 1 && test -t 2 && echo "a terminal of $(stty size), $TERM"
		trap 'echo "now $(stty size)"' WINCH
		read line; echo "read <$line>"
		while ! read line; do :; done; echo "read <$line>"
		exit 5`)
	term.sees("a terminal of 24 80, xterm\r\n")
	term.types("hello\r")
	term.sees("read <hello>")
	term.resize(50, 132)
	term.sees("now 50 132")
	term.types("bye\r")
	term.sees("read <bye>")
	term.endsWith(5)
	i.stopped(t)
}

func TestCtrlCIsTheCommands(t *testing.T) {
	i := install(t)
	term := i.terminal(t, "run", limits, "--", "sh", "-c", `trap 'echo interrupted; exit 7' INT; echo waiting; while :; do sleep 0.1; done`)
	term.sees("waiting")
	term.types("\x03")
	term.sees("interrupted")
	term.endsWith(7)
	i.stopped(t)
}

// A command that does not react to Ctrl-C is ended by the second one.
func TestSecondCtrlCEndsTheSession(t *testing.T) {
	i := install(t)
	term := i.terminal(t, "run", limits, "--", "sh", "-c", `trap '' INT; echo waiting; sleep 1000`)
	term.sees("waiting")
	term.types("\x03")
	term.sees("^C")
	time.Sleep(700 * time.Millisecond) // a person who waits for a reaction
	term.types("\x03")
	term.endsWith(128 + int(unix.SIGINT))
	i.stopped(t)
}

// Ctrl-C is a shell's daily bread: it ends nothing that reacts.
func TestManyCtrlCInAShell(t *testing.T) {
	i := install(t)
	term := i.terminal(t, "run", limits, "--", "bash", "--norc", "--noprofile")
	for n := range 3 {
		term.types("PS1='ready'" + strconv.Itoa(n) + "\r")
		term.sees("ready" + strconv.Itoa(n))
		term.types("half a line\x03")
		time.Sleep(600 * time.Millisecond)
	}
	term.types("exit 9\r")
	term.endsWith(9)
	i.stopped(t)
}

func TestSignalsEndTheSession(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			i := install(t)
			term := i.terminal(t, "run", limits, "--", "sh", "-c", "echo waiting; sleep 1000")
			term.sees("waiting")
			if err := term.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			term.endsWith(128 + int(sig))
			i.stopped(t)
		})
	}
}

func TestClosedTerminalEndsTheSession(t *testing.T) {
	i := install(t)
	term := i.terminal(t, "run", limits, "--", "sh", "-c", "echo waiting; sleep 1000")
	term.sees("waiting")
	_ = term.slave.Close()
	if err := term.master.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-term.ended:
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.ExitCode() != 128+int(unix.SIGHUP) {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("realm did not end")
	}
	i.stopped(t)
}

// Nothing runs in a process that was killed, and its terminal comes back.
func TestKilledRealmLeavesAGoodTerminal(t *testing.T) {
	i := install(t)
	term := i.terminal(t, "run", limits, "--", "sh", "-c", "echo waiting; sleep 1000")
	term.sees("waiting")
	if err := term.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-term.ended
	term.restored()
	if out, err := i.command("gc").CombinedOutput(); err != nil {
		t.Fatalf("gc: %v: %s", err, out)
	}
	if d := i.only(t); d.Record.State != contract.Failed {
		t.Errorf("the session is %s", d.Record.State)
	}
	i.nothingLeft(t)
}

// A signal before the command runs ends everything as well.
func TestSignalWhileStarting(t *testing.T) {
	i := install(t)
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond} {
		term := i.terminal(t, "run", limits, "--", "sleep", "1000")
		time.Sleep(after)
		if err := term.cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-term.ended: // before it took signals: by the signal; afterwards: with 143
		case <-time.After(patience):
			t.Fatalf("realm did not end; the screen:\n%s", term.text())
		}
		term.restored()
	}
	for _, d := range i.sessions(t) {
		if !d.Record.State.Terminal() {
			t.Errorf("a session is %s", d.Record.State)
		}
	}
	i.nothingLeft(t)
}

// Without a terminal the first SIGINT is the command's, the second ends the session.
func TestInterruptsWithoutATerminal(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		signals      int
		code         int
	}{
		{"first", `trap 'echo interrupted; exit 7' INT; echo waiting; while :; do sleep 0.1; done`, 1, 7},
		{"second", `trap 'echo interrupted' INT; echo waiting; while :; do sleep 0.1; done`, 2, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := install(t)
			cmd := i.command("run", limits, "--", "sh", "-c", tt.script)
			out := startReading(t, cmd)
			out.waitFor("waiting")
			for n := range tt.signals {
				if n > 0 {
					out.waitFor("interrupted")
				}
				if err := cmd.Process.Signal(unix.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			out.waitFor("interrupted")
			err := cmd.Wait()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != tt.code {
				t.Errorf("ended with %v, want %d", err, tt.code)
			}
			i.stopped(t)
		})
	}
}

// A reader that goes away ends the session, as it ends a pipeline.
func TestReaderThatGoesAway(t *testing.T) {
	i := install(t)
	cmd := i.command("run", limits, "--", "yes")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if _, err := r.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 128+int(unix.SIGPIPE) {
		t.Errorf("ended with %v", err)
	}
	i.stopped(t)
}

// What a command wrote to a pipe acts on no terminal that it ends on.
func TestOutputIsHarmlessOnATerminal(t *testing.T) {
	i := install(t)
	script := `printf 'a\033]52;c;cm0=\ab\rc\n'`
	policy := i.workspace + "/../shell.json"
	if err := os.WriteFile(policy, []byte(`{"allowShell": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run := i.command("run", limits, "--name", "harmless-"+strings.ToLower(t.Name()[:4]), "--policy", policy, "--", "sleep", "1000")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Wait() }()
	defer func() { _ = run.Process.Signal(unix.SIGTERM) }()
	eventually(t, "a ready session", func() bool {
		list := i.sessions(t)
		return len(list) == 1 && list[0].Record.State == contract.Ready
	})
	term := i.terminal(t, "exec", i.only(t).Record.SessionID, "--", "sh", "-c", script)
	term.endsWith(0)
	term.sees(`a\x1b]52;c;cm0=\x07b` + "\r\nc\r\n")
	out, err := i.command("exec", i.only(t).Record.SessionID, "--", "sh", "-c", script).Output()
	if err != nil || string(out) != "a\x1b]52;c;cm0=\ab\rc\n" {
		t.Errorf("a pipe got %q, %v", out, err)
	}
}
