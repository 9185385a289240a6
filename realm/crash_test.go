package realm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"realm.dev/contract"
	"realm.dev/realm/journal"
	"realm.dev/realm/workspace"
)

// TestMain lets the test binary be the helper that binds mounts, as realm's own
// binary is, and a realm that is killed at a named step.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workspace.HelperArg {
		os.Exit(workspace.HelperMain(os.Args[2:]))
	}
	if step := os.Getenv("REALM_TEST_CRASH_AT"); step != "" {
		crashAt(step)
	}
	os.Exit(m.Run())
}

// crashAt runs a session and kills its own process, as kill -9 does, when the
// session reaches step.
func crashAt(step string) {
	ctx := context.Background()
	fatal := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
	}
	dirs := Dirs{State: os.Getenv("REALM_TEST_STATE"), Runtime: os.Getenv("REALM_TEST_RUNTIME")}
	m, err := openRealm(ctx, dirs)
	fatal(err)
	m.ownerGrace, _ = time.ParseDuration(os.Getenv("REALM_TEST_GRACE"))
	m.step = func(name string) {
		if name == step {
			p, _ := os.FindProcess(os.Getpid())
			_ = p.Kill()
			select {}
		}
	}
	doc, err := policyFor(os.Getenv("REALM_TEST_POLICY"))
	fatal(err)
	s, err := m.Create(ctx, Request{Policy: doc, Workspace: os.Getenv("REALM_TEST_WORKSPACE"), SessionID: "crash", AllowUnenforced: []string{"memory"}})
	fatal(err)
	fatal(s.WaitReady(ctx))
	m.at("ready")
	go s.Call(ctx, "c", &contract.ToolCall{Exec: &contract.ExecCall{Shell: true, Script: "sleep 1000 & sleep 1000"}}, nil)
	for len(s.Detail().Background) == 0 {
		time.Sleep(5 * time.Millisecond)
	}
	m.at("exec")
	_, err = s.Stop(ctx, 0)
	fatal(err)
	m.at("stopped")
	os.Exit(4) // the step was never reached
}

// kill -9 of realm at every step of start, exec and stop leaves nothing behind
// after the next sweep, and no torn file (CTR-20, SESS-03).
func TestKillAtEveryStepLeavesNothing(t *testing.T) {
	r := newRig(t)
	for _, step := range []string{
		"record", "plan", "image", "prepare", "create", "init", "start", "prove", "booted", "ready", "exec",
		"teardown", "undo supervisor", "undo watch", "undo container", "undo workspace", "stopped",
	} {
		t.Run(strings.ReplaceAll(step, " ", "-"), func(t *testing.T) {
			dirs := testDirs(t)
			ws := workspaceDir(t, map[string]string{"f": "1"})
			before := tree(t, ws)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "REALM_TEST_CRASH_AT="+step, "REALM_TEST_STATE="+dirs.State, "REALM_TEST_RUNTIME="+dirs.Runtime,
				"REALM_TEST_WORKSPACE="+ws, "REALM_TEST_POLICY=mode: workspace-write\nallowShell: true\ngit: write\n")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			err := cmd.Run()
			if cmd.ProcessState.ExitCode() != -1 {
				t.Fatalf("did not crash at %q: %v\n%s", step, err, stderr.String())
			}
			m, err := openRealm(t.Context(), dirs) // sweeps
			must(t, err)
			defer func() { _ = m.Close(context.Background()) }()
			left, err := m.Sweep(t.Context(), true)
			must(t, err)
			if len(left) != 0 {
				t.Errorf("after the sweep: %+v", left)
			}
			rig := &rig{m, dirs, r.facts}
			assertNothingLeft(t, rig, "crash")
			if got := tree(t, ws); got != before {
				t.Errorf("the workspace has changed:\n%s\nwas\n%s", got, before)
			}
			if rec, err := journal.ReadRecord(dirs.session("crash")); err == nil && !rec.State.Terminal() {
				t.Errorf("the record says %s", rec.State)
			} else if err != nil && contract.CodeOf(err) != contract.SessionNotFound {
				t.Errorf("record: %v", err)
			}
			if m, _ := filepath.Glob(filepath.Join(dirs.Runtime, "realm-*", "*")); len(m) != 0 {
				t.Errorf("left: %v", m)
			}
			if m, _ := filepath.Glob(filepath.Join(dirs.Runtime, "podman-[0-9]*")); len(m) != 1 { // that of the sweeping realm
				t.Errorf("services: %v", m)
			}
		})
	}
}

// tree lists everything below dir.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, strings.TrimPrefix(p, dir), d.Type())
		return nil
	}))
	return b.String()
}
