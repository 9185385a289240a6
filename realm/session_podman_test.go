package realm

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"realm.dev/contract"
)

const writable = "mode: workspace-write\nallowShell: true\n"

// The main job, end to end: six states in order, a program that works on the
// workspace, files that belong to its owner, nothing left behind.
func TestSessionRunsAndLeavesNothing(t *testing.T) {
	r := newRig(t)
	dir := workspaceDir(t, map[string]string{"in.txt": "hello\n"})
	s, err := r.Create(t.Context(), r.request(t, writable, dir))
	must(t, err)
	records := s.Watch(t.Context())
	must(t, s.WaitReady(t.Context()))
	if got := out(t, s, "cat in.txt; tr a-z A-Z < in.txt > out.txt; pwd; id -u"); got != "hello\n"+dir+"\n1000" {
		t.Errorf("printed %q", got)
	}
	fi, err := os.Stat(filepath.Join(dir, "out.txt"))
	must(t, err)
	if uid, gid := ownerOf(fi); uid != os.Getuid() || gid != os.Getgid() {
		t.Errorf("out.txt belongs to %d:%d, want the workspace's owner", uid, gid)
	}
	rec, err := s.Stop(t.Context(), 0)
	must(t, err)
	if rec.State != contract.Stopped || rec.ContainerID == nil {
		t.Errorf("final record %+v", rec)
	}
	var states []string
	for rec := range records {
		states = append(states, string(rec.State))
	}
	if got := strings.Join(states, " "); !strings.HasSuffix(got, "starting ready stopping stopped") {
		t.Errorf("states %q", got)
	}
	assertNothingLeft(t, r, s.ID())
}

// assertNothingLeft fails when the engine or the directories still hold
// something of a session that is over.
func assertNothingLeft(t *testing.T, r *rig, id string) {
	t.Helper()
	list, err := r.engine.List(t.Context(), map[string]string{"dev.realm.session-id": id})
	must(t, err)
	for _, c := range list {
		t.Errorf("container %s is %s", c.Name, c.State)
	}
	left, _ := filepath.Glob(filepath.Join(r.dirs.Runtime, r.realmID, id+".[bl]*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEveryProbePassed(t *testing.T) {
	r := newRig(t)
	s := r.session(t, "{}", workspaceDir(t, nil))
	d := s.Detail()
	if len(d.Probes) < 20 {
		t.Errorf("only %d probes ran", len(d.Probes))
	}
	for _, p := range d.Probes {
		t.Logf("%-24s %v %s", p.Name, p.OK, p.Detail)
		if !p.OK {
			t.Errorf("probe %s: %s", p.Name, p.Detail)
		}
	}
	for _, l := range d.Limits {
		t.Logf("limit %s: asked %v, in force %v by %s %s", l.Name, l.Asked, l.InForce, l.By, l.Detail)
	}
}

func TestReadOnlyWorkspace(t *testing.T) {
	r := newRig(t)
	dir := workspaceDir(t, map[string]string{"f": "1", "sub/g": "2"})
	s := r.session(t, "allowShell: true\n", dir)
	for _, script := range []string{"echo x > f", "echo x > new", "mkdir d", "rm f", "mv sub s2", "chmod 600 f", "ln f h"} {
		if res := sh(t, s, script); res.Error == nil && *res.Exec.ExitCode == 0 {
			t.Errorf("%s: succeeded in a read-only workspace", script)
		}
	}
	if got := out(t, s, "cat f sub/g"); got != "12" {
		t.Errorf("read %q", got)
	}
}

func TestOutcomesAreTruthful(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	for _, tc := range []struct {
		script  string
		outcome contract.ExecOutcome
		code    int
		signal  string
	}{
		{"exit 0", contract.Exited, 0, ""},
		{"exit 7", contract.Exited, 7, ""},
		{"exit 137", contract.Exited, 137, ""},
		{"kill -9 $$", contract.Signaled, -1, "SIGKILL"},
		{"kill -TERM $$", contract.Signaled, -1, "SIGTERM"},
	} {
		e := sh(t, s, tc.script).Exec
		if e.Outcome != tc.outcome || e.Signal != tc.signal || (tc.code >= 0) != (e.ExitCode != nil) || tc.code >= 0 && *e.ExitCode != tc.code {
			t.Errorf("%s: %+v", tc.script, e)
		}
	}
	res := s.Call(t.Context(), "t-none", &contract.ToolCall{Exec: &contract.ExecCall{Argv: []string{"no-such-program-xyz"}}}, nil)
	if contract.CodeOf(res.Error) != contract.ExecNotStarted {
		t.Errorf("missing program: %+v", res)
	}
	res = s.Call(t.Context(), "t-slow", &contract.ToolCall{Exec: &contract.ExecCall{
		Shell: true, Script: "trap '' TERM; echo before; sleep 1000 & sleep 1000", TimeoutMs: 300,
	}}, nil)
	if contract.CodeOf(res.Error) != contract.ExecTimeout || res.Exec == nil || res.Exec.Outcome != contract.TimedOut ||
		strings.TrimSpace(res.Exec.Stdout.Head) != "before" || res.Exec.ExitCode != nil {
		t.Errorf("timeout: %v %+v", res.Error, res.Exec)
	}
	if got := out(t, s, "ps -eo comm | grep -c sleep || true"); got != "0" {
		t.Errorf("%s sleeps survived the timeout", got)
	}
}

func TestCallIDsRunAtMostOnce(t *testing.T) {
	r := newRig(t)
	dir := workspaceDir(t, nil)
	s := r.session(t, writable, dir)
	call := &contract.ToolCall{Exec: &contract.ExecCall{Shell: true, Script: "echo x >> log; sleep 0.2; wc -l < log"}}
	results := make(chan contract.ToolResult, 8)
	for range cap(results) {
		go func() { results <- s.Call(t.Context(), "same", call, nil) }()
	}
	for range cap(results) {
		if res := <-results; strings.TrimSpace(res.Exec.Stdout.Head) != "1" {
			t.Errorf("got %+v", res.Exec)
		}
	}
	other := &contract.ToolCall{Exec: &contract.ExecCall{Argv: []string{"true"}}}
	if res := s.Call(t.Context(), "same", other, nil); contract.CodeOf(res.Error) != contract.SessionState {
		t.Errorf("another call of the same id: %+v", res)
	}
}

func TestStartIsRefusedNotWeakened(t *testing.T) {
	r := newRig(t)
	dir := workspaceDir(t, nil)
	for name, tc := range map[string]struct {
		yaml string
		code contract.Code
	}{
		"egress entry":  {"egressAllow: [{host: example.org, port: 443}]\n", contract.SchemaInvalid},
		"egress ask":    {"egressDefault: ask\n", contract.SchemaInvalid},
		"gate rule":     {"gate: {rules: [{id: a, effect: ask, tool: exec}]}\n", contract.SchemaInvalid},
		"start budget":  {"startupBudgetMs: 1\n", contract.StartupTimeout},
		"missing image": {"image: registry.invalid/none:1\n", contract.ImageUnavailable},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			s, err := r.Create(t.Context(), r.request(t, tc.yaml, dir))
			if err == nil {
				err = s.WaitReady(t.Context())
				<-s.Done()
				if st := s.Record().State; st != contract.Failed {
					t.Errorf("state %s, want failed", st)
				}
				assertNothingLeft(t, r, s.ID())
			}
			if contract.CodeOf(err) != tc.code {
				t.Errorf("err = %v, want %s", err, tc.code)
			}
		})
	}
}

func TestStopWhileStartingAndTwice(t *testing.T) {
	r := newRig(t)
	for range 5 {
		s, err := r.Create(t.Context(), r.request(t, "{}", workspaceDir(t, nil)))
		must(t, err)
		go func() { _, _ = s.Stop(context.Background(), 0) }()
		rec, err := s.Stop(t.Context(), 0)
		must(t, err)
		if rec.State != contract.Stopped {
			t.Errorf("state %s", rec.State)
		}
		assertNothingLeft(t, r, s.ID())
	}
}

// A container that is killed behind realm's back ends the session as failed, and
// calls in flight as lost, never with an invented exit code (CTR-18).
func TestContainerKilledBehindUs(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	res := make(chan contract.ToolResult, 1)
	go func() {
		res <- s.Call(t.Context(), "long", &contract.ToolCall{Exec: &contract.ExecCall{Argv: []string{"sleep", "1000"}}}, nil)
	}()
	waitFor(t, func() bool { return len(s.Detail().Background) > 0 })
	must(t, r.engine.Remove(t.Context(), *s.Record().ContainerID))
	got := <-res
	if contract.CodeOf(got.Error) != contract.SessionLost || got.Exec != nil && (got.Exec.Outcome != contract.Lost || got.Exec.ExitCode != nil) {
		t.Errorf("call in flight: %v %+v", got.Error, got.Exec)
	}
	<-s.Done()
	if st := s.Record().State; st != contract.Failed {
		t.Errorf("state %s, want failed", st)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("did not happen within 20 s")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A reader that pauses while the program ends loses nothing (a capture that was
// closed too early dropped what was still in the pipe).
func TestASlowReaderLosesNothing(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	for _, script := range []string{"head -c 400000 /dev/zero", "sleep 1000 & head -c 400000 /dev/zero"} {
		var seen int64
		slow := func(stream string, off int64, p []byte) {
			if seen == 0 {
				time.Sleep(2500 * time.Millisecond)
			}
			seen += int64(len(p))
		}
		res := s.Call(t.Context(), "slow-"+randomID(6), &contract.ToolCall{Exec: &contract.ExecCall{Shell: true, Script: script}}, slow)
		if res.Error != nil || res.Exec.Stdout.Bytes != 400000 || seen != 400000 {
			t.Errorf("%s: error %v, kept %d, seen %d", script, res.Error, res.Exec.Stdout.Bytes, seen)
		}
	}
}

// The attached program's call id is claimed like any other: it runs once, and no
// call can take its place.
func TestTheAttachedProgramRunsOnce(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	a := Attached{Argv: []string{"true"}, Stdout: io.Discard, Stderr: io.Discard}
	if o, err := s.Run(t.Context(), a); err != nil || o.ExitCode == nil || *o.ExitCode != 0 {
		t.Fatalf("run: %+v, %v", o, err)
	}
	if _, err := s.Run(t.Context(), a); contract.CodeOf(err) != contract.SessionState {
		t.Errorf("a second run: %v", err)
	}
	call := &contract.ToolCall{Exec: &contract.ExecCall{Argv: []string{"false"}}}
	if res := s.Call(t.Context(), runID, call, nil); contract.CodeOf(res.Error) != contract.SessionState {
		t.Errorf("a call of its id: %+v", res)
	}
}
