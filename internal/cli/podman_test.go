package cli_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"realm.dev/contract"
	"realm.dev/integration/podmantest"
)

// installed is a realm on real Podman as a person has it: both programs in one
// directory, sessions in a state directory of the test's own. The engine's own
// directories are the user's.
type installed struct {
	realm     string
	env       []string
	workspace string
	state     string
}

func install(t *testing.T) *installed {
	t.Helper()
	podmantest.Require(t)
	dir, err := os.MkdirTemp("", "realm-cli-") // not t.TempDir: too long for a socket's name
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	i := &installed{realm: filepath.Join(dir, "realm"), workspace: filepath.Join(dir, "ws"), state: filepath.Join(dir, "state")}
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	copyProgram(t, this, i.realm)
	copyProgram(t, "../../bin/realm-init", filepath.Join(dir, "realm-init"))
	if err := os.Mkdir(i.workspace, 0o755); err != nil {
		t.Fatal(err)
	}
	i.env = append(os.Environ(), "XDG_STATE_HOME="+i.state, "TERM=xterm")
	t.Cleanup(func() { i.tidy(t) })
	return i
}

// copyProgram makes a hard link where it can: the program then finds its
// neighbours in the new directory.
func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	src, err := os.Open(from)
	if err != nil {
		t.Fatalf("%v (make build)", err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
}

// tidy puts away what a failed test may have left, and the directory that its
// sockets were in.
func (i *installed) tidy(t *testing.T) {
	if out, err := i.command("stop", "--all").CombinedOutput(); err != nil {
		t.Logf("stop --all: %v: %s", err, out)
	}
	if out, err := i.command("gc").CombinedOutput(); err != nil {
		t.Errorf("gc: %v: %s", err, out)
	}
	id, err := os.ReadFile(filepath.Join(i.state, "realm", "realm-id"))
	if err == nil && os.Getenv("XDG_RUNTIME_DIR") != "" {
		_ = os.Remove(filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "realm", strings.TrimSpace(string(id))))
	}
}

func (i *installed) command(args ...string) *exec.Cmd {
	cmd := exec.Command(i.realm, args...)
	cmd.Env, cmd.Dir = i.env, i.workspace
	return cmd
}

// sessions is what `realm ps -a` tells.
func (i *installed) sessions(t *testing.T) []contract.SessionDetail {
	t.Helper()
	out, err := i.command("ps", "-a", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []contract.SessionDetail
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// only is the only session.
func (i *installed) only(t *testing.T) contract.SessionDetail {
	t.Helper()
	list := i.sessions(t)
	if len(list) != 1 {
		t.Fatalf("%d sessions, want one", len(list))
	}
	return list[0]
}

// nothingLeft checks that no dead session left anything on this machine.
func (i *installed) nothingLeft(t *testing.T) {
	t.Helper()
	out, err := i.command("gc", "--dry-run").CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("gc --dry-run: %v:\n%s", err, out)
	}
}

// limits lets sessions start where the machine cannot limit memory (rootless on
// cgroup v1). Elsewhere it changes nothing.
const limits = "--allow-unenforced=memory"

// patience bounds every wait of these tests; nothing should come near it.
const patience = time.Minute

// eventually waits for ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came: %s", what)
		}
	}
}

func TestPodmanScripts(t *testing.T) {
	i := install(t)
	facts := podmantest.Require(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/podman",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                commands(),
		Condition: func(name string) (bool, error) {
			if name != "limits" {
				return false, errors.New("unknown condition " + name)
			}
			return !facts.Rootless || facts.CgroupVersion != "v1", nil
		},
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(i.realm)+string(os.PathListSeparator)+e.Getenv("PATH"))
			for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "CONTAINER_HOST"} {
				e.Setenv(name, os.Getenv(name))
			}
			state, err := os.MkdirTemp(filepath.Dir(i.realm), "s")
			e.Setenv("XDG_STATE_HOME", state)
			e.Setenv("LIMITS", limits)
			e.Setenv("NAME", filepath.Base(state)) // for session ids: containers are the whole user's
			e.Defer(func() { (&installed{realm: i.realm, env: e.Vars, workspace: e.WorkDir, state: state}).tidy(t) })
			return err
		},
	})
}
