package realm

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"realm.dev/container"
	"realm.dev/container/containertest"
	"realm.dev/contract"
	"realm.dev/realm/journal"
)

// fakeRealm is a realm on an engine in memory: its containers never call back.
func fakeRealm(t *testing.T) (*Manager, *containertest.Fake, Dirs) {
	t.Helper()
	dirs := testDirs(t)
	must(t, os.MkdirAll(filepath.Dir(dirs.State), 0o755))
	fake := containertest.New()
	fake.Info.Rootless = os.Getuid() != 0
	init := filepath.Join(filepath.Dir(dirs.State), "realm-init")
	must(t, os.WriteFile(init, []byte("#!/bin/false\n"), 0o755))
	m, err := Open(t.Context(), Options{Dirs: dirs, Engine: fake, InitBinary: init})
	must(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	return m, fake, dirs
}

// Whatever step of a start fails, before or after it took effect, the session
// ends as failed with that step's code, and the engine and the directories are
// as they were.
func TestAFailedStartReleasesEverything(t *testing.T) {
	for _, after := range []bool{false, true} {
		for _, op := range []containertest.Op{containertest.OpCreate, containertest.OpVerify, containertest.OpInit, containertest.OpInspect, containertest.OpStart} {
			name := string(op)
			if after {
				name += "-after"
			}
			t.Run(name, func(t *testing.T) {
				m, fake, dirs := fakeRealm(t)
				boom := contract.Errorf(contract.PodmanUnavailable, "injected")
				if after {
					fake.FailAfter(op, boom)
				} else {
					fake.Fail(op, boom)
				}
				ws := workspaceDir(t, map[string]string{"f": "1"})
				before := tree(t, ws)
				s, err := m.Create(t.Context(), Request{Policy: compile(t, "mode: workspace-write\n"), Workspace: ws})
				must(t, err)
				if err := s.WaitReady(t.Context()); contract.CodeOf(err) != contract.PodmanUnavailable {
					t.Errorf("err = %v", err)
				}
				<-s.Done()
				assertGone(t, m, fake, dirs, s)
				if got := tree(t, ws); got != before {
					t.Errorf("the workspace has changed:\n%s", got)
				}
			})
		}
	}
}

// A PID 1 that never calls ends the start at its budget.
func TestASilentInitEndsAtTheBudget(t *testing.T) {
	m, fake, dirs := fakeRealm(t)
	s, err := m.Create(t.Context(), Request{Policy: compile(t, "startupBudgetMs: 300\n"), Workspace: workspaceDir(t, nil)})
	must(t, err)
	if err := s.WaitReady(t.Context()); contract.CodeOf(err) != contract.StartupTimeout {
		t.Errorf("err = %v", err)
	}
	<-s.Done()
	assertGone(t, m, fake, dirs, s)
	if res := s.Call(t.Context(), "late", &contract.ToolCall{Exec: &contract.ExecCall{Argv: []string{"true"}}}, nil); contract.CodeOf(res.Error) != contract.SessionState {
		t.Errorf("a call after the end: %v", res.Error)
	}
}

// Stopping a session that is starting ends it as stopped, and stopping again is
// no error.
func TestStopWhileStarting(t *testing.T) {
	m, fake, dirs := fakeRealm(t)
	s, err := m.Create(t.Context(), Request{Policy: compile(t, "{}"), Workspace: workspaceDir(t, nil)})
	must(t, err)
	for range 2 {
		rec, err := s.Stop(t.Context(), time.Second)
		must(t, err)
		if rec.State != contract.Stopped {
			t.Errorf("state %s", rec.State)
		}
	}
	list, err := fake.List(t.Context(), map[string]string{container.LabelRealm: m.realmID})
	must(t, err)
	if len(list) != 0 {
		t.Errorf("containers left: %v", list)
	}
	rec, err := journal.ReadRecord(dirs.session(s.ID()))
	must(t, err)
	if rec.State != contract.Stopped {
		t.Errorf("the record on disk says %s", rec.State)
	}
}

func TestIDsAreCheckedAndNotTakenTwice(t *testing.T) {
	m, _, _ := fakeRealm(t)
	req := Request{Policy: compile(t, "{}"), Workspace: workspaceDir(t, nil)}
	for _, id := range []string{"../x", "UPPER", "-a", "a/b", "a\x00", "é", string(make([]byte, 64))} {
		req.SessionID = id
		if _, err := m.Create(t.Context(), req); contract.CodeOf(err) != contract.SchemaInvalid {
			t.Errorf("id %q: %v", id, err)
		}
	}
	req.SessionID = "mine"
	s, err := m.Create(t.Context(), req)
	must(t, err)
	if _, err := m.Create(t.Context(), req); contract.CodeOf(err) != contract.SessionState {
		t.Errorf("the same id twice: %v", err)
	}
	_, err = s.Stop(t.Context(), 0)
	must(t, err)
}

func assertGone(t *testing.T, m *Manager, fake *containertest.Fake, dirs Dirs, s *Session) {
	t.Helper()
	list, err := fake.List(t.Context(), map[string]string{container.LabelRealm: m.realmID})
	must(t, err)
	if len(list) != 0 {
		t.Errorf("containers left: %+v", list)
	}
	for _, p := range []string{dirs.box(m.realmID, s.ID()), dirs.link(m.realmID, s.ID())} {
		if exists(p) {
			t.Errorf("left: %s", p)
		}
	}
	rec, err := journal.ReadRecord(dirs.session(s.ID()))
	must(t, err)
	if rec.State != contract.Failed || s.Record().State != contract.Failed {
		t.Errorf("record %s, in memory %s", rec.State, s.Record().State)
	}
}

// While the engine may still have the container, nothing that it could use is
// given back; the sweep that gets it removed gives back the rest.
func TestAContainerThatStaysKeepsItsWorkspace(t *testing.T) {
	m, fake, _ := fakeRealm(t)
	boom := contract.Errorf(contract.PodmanUnavailable, "injected")
	fake.Fail(containertest.OpStart, boom)
	fake.Fail(containertest.OpRemove, boom)
	ws := workspaceDir(t, map[string]string{"f": "1"})
	before := tree(t, ws)
	s, err := m.Create(t.Context(), Request{Policy: compile(t, "mode: workspace-write\n"), Workspace: ws})
	must(t, err)
	if err := s.WaitReady(t.Context()); contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Errorf("err = %v", err)
	}
	<-s.Done()
	if tree(t, ws) == before {
		t.Error("the placeholders were removed under a container that may run")
	}
	fake.Fail(containertest.OpRemove, boom)
	if _, err := m.Sweep(t.Context(), false); err == nil {
		t.Error("a sweep that could not remove the container said nothing")
	}
	if tree(t, ws) == before {
		t.Error("the sweep removed the placeholders under a container that may run")
	}
	_, err = m.Sweep(t.Context(), false)
	must(t, err)
	if got := tree(t, ws); got != before {
		t.Errorf("after the sweep:\n%s", got)
	}
}
