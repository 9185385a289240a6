package term_test

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"realm.dev/internal/term"
)

// endings are the ways in which a process that made its terminal raw ends.
var endings = map[string]func(*term.Raw){
	"restore": func(r *term.Raw) { _ = r.Restore() },
	"twice":   func(r *term.Raw) { _ = r.Restore(); _ = r.Again(); _ = r.Restore() },
	"exit":    func(*term.Raw) { os.Exit(3) },
	"panic":   func(*term.Raw) { go panic("on another goroutine"); select {} },
	"kill":    func(*term.Raw) { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} },
	"hangup":  func(*term.Raw) { _ = unix.Kill(os.Getpid(), unix.SIGHUP); select {} },
}

func TestMain(m *testing.M) {
	if term.GuardMain(os.Args[1:]) {
		return
	}
	if end, ok := endings[os.Getenv("TERM_TEST_ENDING")]; ok {
		rawThen(end)
		return
	}
	os.Exit(m.Run())
}

// rawThen is the process under test: it says that it is raw, waits for a line
// and ends.
func rawThen(end func(*term.Raw)) {
	tty, ok := term.IsTerminal(os.Stdin)
	if !ok {
		os.Exit(4)
	}
	raw, err := term.MakeRaw(tty)
	if err != nil {
		os.Exit(5)
	}
	_, _ = os.Stdout.WriteString("raw\n")
	_, _ = os.NewFile(3, "go").Read(make([]byte, 1))
	end(raw)
}

func TestRawEndsRestored(t *testing.T) {
	for name := range endings {
		t.Run(name, func(t *testing.T) {
			master, slave, err := pty.Open()
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer slave.Close()
			before := termios(t, slave)

			goR, goW, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "TERM_TEST_ENDING="+name)
			cmd.Stdin = slave
			cmd.ExtraFiles = []*os.File{goR}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			goR.Close()
			if line, err := bufio.NewReader(out).ReadString('\n'); line != "raw\n" {
				t.Fatalf("the process said %q, %v", line, err)
			}
			if during := termios(t, slave); during.Lflag&unix.ICANON != 0 || during.Lflag&unix.ISIG != 0 {
				t.Errorf("not raw: lflag %#x", during.Lflag)
			}
			goW.Close()
			_ = cmd.Wait()

			deadline := time.Now().Add(10 * time.Second)
			for !cmp.Equal(before, termios(t, slave)) && time.Now().Before(deadline) {
				time.Sleep(5 * time.Millisecond)
			}
			if diff := cmp.Diff(before, termios(t, slave)); diff != "" {
				t.Errorf("the terminal was left changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestSizeOf(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	if err := pty.Setsize(master, &pty.Winsize{Rows: 41, Cols: 132}); err != nil {
		t.Fatal(err)
	}
	got, err := term.SizeOf(slave)
	if err != nil || got != (term.Size{Rows: 41, Cols: 132}) {
		t.Errorf("SizeOf = %v, %v", got, err)
	}
}

func TestIsTerminal(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, v := range []any{null, nil, (*os.File)(nil), "text"} {
		if _, ok := term.IsTerminal(v); ok {
			t.Errorf("IsTerminal(%v)", v)
		}
	}
}

func termios(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	got, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *got
}
