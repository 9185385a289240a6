package realm

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"realm.dev/container/podman"
	"realm.dev/contract"
	"realm.dev/integration/podmantest"
	"realm.dev/policy"
)

// rig is a realm on real Podman with directories of its own.
type rig struct {
	*Manager
	dirs  Dirs
	facts podmantest.Facts
}

// newRig needs Podman; the realm ends with the test.
func newRig(t *testing.T) *rig {
	t.Helper()
	facts := podmantest.Require(t)
	dirs := testDirs(t)
	m, err := openRealm(t.Context(), dirs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &rig{m, dirs, facts}
}

// testDirs are directories that a container's other host ids can be shown
// files of, and whose names are short enough for sockets.
func testDirs(t *testing.T) Dirs {
	t.Helper()
	root, err := os.MkdirTemp("", "realm-t-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	return Dirs{State: filepath.Join(root, "state"), Runtime: filepath.Join(root, "run")}
}

func openRealm(ctx context.Context, dirs Dirs) (*Manager, error) {
	if err := os.MkdirAll(dirs.Runtime, 0o700); err != nil {
		return nil, err
	}
	eng, err := podman.Open(ctx, podman.Options{RuntimeDir: dirs.Runtime})
	if err != nil {
		return nil, err
	}
	init, err := initBinary()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	return Open(ctx, Options{Dirs: dirs, Engine: eng, InitBinary: init, Logger: log})
}

// initBinary is the realm-init that make build made.
func initBinary() (string, error) {
	p, err := filepath.Abs("../bin/realm-init")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(p); err != nil {
		out, err := exec.Command("go", "build", "-o", p, "../cmd/realm-init").CombinedOutput()
		if err != nil {
			return "", contract.Errorf(contract.Internal, "build realm-init first (make build): %s", out)
		}
	}
	return p, nil
}

// workspaceDir makes a workspace of files (name → content; a trailing slash is a
// directory), owned by who runs the test, or by uid 1234 when that is root.
func workspaceDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "realm-ws-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, content := range files {
		p := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(content), 0o644))
	}
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func compile(t *testing.T, yaml string) *policy.Compiled {
	t.Helper()
	c, err := policyFor(yaml)
	must(t, err)
	return c
}

// session starts a session and waits until it is ready.
func (r *rig) session(t *testing.T, yaml, dir string) *Session {
	t.Helper()
	s, err := r.Create(t.Context(), r.request(t, yaml, dir))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatalf("%v\nprobes: %+v", err, s.Detail().Probes)
	}
	return s
}

func (r *rig) request(t *testing.T, yaml, dir string) Request {
	req := Request{Policy: compile(t, yaml), Workspace: dir}
	if r.facts.Rootless && r.facts.CgroupVersion == "v1" {
		req.AllowUnenforced = []string{"memory"} // nothing can limit it there
	}
	return req
}

// sh runs a script and returns the whole result.
func sh(t *testing.T, s *Session, script string) contract.ToolResult {
	t.Helper()
	return s.Call(t.Context(), "t-"+randomID(10), &contract.ToolCall{Exec: &contract.ExecCall{Shell: true, Script: script}}, nil)
}

// out runs a script that must end with 0 and returns what it printed.
func out(t *testing.T, s *Session, script string) string {
	t.Helper()
	res := sh(t, s, script)
	if res.Error != nil || res.Exec.ExitCode == nil || *res.Exec.ExitCode != 0 {
		t.Fatalf("%s: error %v, result %+v", script, res.Error, res.Exec)
	}
	return strings.TrimSpace(res.Exec.Stdout.Head)
}

func policyFor(yaml string) (*policy.Compiled, error) {
	doc, err := policy.Load([]byte(yaml), policy.FormatYAML)
	if err != nil {
		return nil, err
	}
	return policy.Compile(doc)
}

func ownerOf(fi os.FileInfo) (uid, gid int) {
	st := fi.Sys().(*syscall.Stat_t)
	return int(st.Uid), int(st.Gid)
}
