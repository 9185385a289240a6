package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"realm.dev/internal/cli"
	"realm.dev/internal/term"
	"realm.dev/realm/workspace"
)

// TestMain makes the test binary the program under test as well, its helper
// processes included.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	switch {
	case len(args) > 0 && args[0] == workspace.HelperArg:
		os.Exit(workspace.HelperMain(args[1:]))
	case term.GuardMain(args):
		return
	}
	testscript.Main(m, map[string]func(){
		"realm": func() { os.Exit(cli.Main(os.Args[1:], cli.System())) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               privateDirs,
		Cmds:                commands(),
	})
}

// privateDirs gives each script a home and directories of its own.
func privateDirs(e *testscript.Env) error {
	for name, dir := range map[string]string{
		"HOME": "home", "XDG_CONFIG_HOME": "home/config", "XDG_STATE_HOME": "home/state", "XDG_RUNTIME_DIR": "run",
	} {
		path := filepath.Join(e.WorkDir, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return err
		}
		e.Setenv(name, path)
	}
	return nil
}

func commands() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":    exits,
		"mkfifo":   mkfifo,
		"truncate": truncate,
		"ready":    ready,
	}
}

// exits CODE PROGRAM [ARGUMENT…] runs a program that must end with CODE.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("ended with %d, want %d", got, want)
	}
}

func mkfifo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: mkfifo FILE")
	}
	ts.Check(unix.Mkfifo(ts.MkAbs(args[0]), 0o600))
}

// truncate SIZE FILE makes a file of that size without writing it.
func truncate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: truncate SIZE FILE")
	}
	size, err := strconv.ParseInt(args[0], 10, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[1]), os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	ts.Check(errors.Join(f.Truncate(size), f.Close()))
}

// ready ID waits until a session is ready.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ready ID")
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ts.Exec("realm", "show", args[0]) == nil && strings.Contains(ts.ReadFile("stdout"), "state        ready\n") {
			return
		}
	}
	ts.Fatalf("the session did not become ready")
}
