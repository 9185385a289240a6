package realm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"realm.dev/contract"
)

// gitDir makes a repository with one commit.
func gitDir(t *testing.T) string {
	t.Helper()
	dir := workspaceDir(t, map[string]string{"f": "one\n"})
	hostGit(t, dir, "init", "-q", "-b", "main")
	hostGit(t, dir, "add", "f")
	hostGit(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func hostGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=n@localhost", "-c", "safe.directory=*"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, b)
	}
	return strings.TrimSpace(string(b))
}

const gitEnv = "export GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=n@localhost GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=n@localhost; "

// refused fails the test when script succeeds.
func refused(t *testing.T, s *Session, scripts ...string) {
	t.Helper()
	for _, script := range scripts {
		if res := sh(t, s, script); res.Error != nil || *res.Exec.ExitCode == 0 {
			t.Errorf("%s: want a failure, got error %v, %+v", script, res.Error, res.Exec)
		}
	}
}

// attacks on the git directory that were measured to get past a bare read-only
// mount of hooks and config (container-experiments: Protect).
var gitAttacks = []string{
	"mv .git .git2",
	"mv .git .git2 && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
	"echo evil > .git/hooks/pre-commit",
	"echo evil > .git/config",
	"rm -rf .git/hooks && mkdir .git/hooks",
	"mv .git/config .git/config2",
	"mv .git/hooks .git/hooks2",
	"git config core.fsmonitor 'touch /tmp/x'",
	"git remote add evil ./x",
	"echo evil > .git/commondir",
	"mkdir -p .git/modules/m && echo x > .git/modules/m/config",
	"ln -s /tmp .git/worktrees",
	"echo '[core]' > .git/config.worktree",
}

func TestGitRead(t *testing.T) {
	r := newRig(t)
	dir := gitDir(t)
	s := r.session(t, writable, dir)
	out(t, s, "echo two >> f")
	if got := out(t, s, "git status --porcelain; git log --oneline | wc -l; git diff | grep -c '^+two'"); got != "M f\n1\n1" {
		t.Errorf("git inside: %q", got)
	}
	refused(t, s, gitAttacks...)
	refused(t, s, gitEnv+"git add f", gitEnv+"git commit -am x")
	// Host git keeps working beside the session, and its rename over .git/config
	// does not open anything inside.
	hostGit(t, dir, "config", "user.name", "host")
	hostGit(t, dir, "commit", "-qam", "second")
	refused(t, s, gitAttacks...)
	if got := out(t, s, "git log --oneline | wc -l"); got != "2" {
		t.Errorf("the session sees %s commits", got)
	}
}

func TestGitWrite(t *testing.T) {
	r := newRig(t)
	dir := gitDir(t)
	s := r.session(t, writable+"git: write\n", dir)
	out(t, s, gitEnv+"echo two >> f && git add f && git commit -qm second && git branch topic && echo x >> f && git stash -q && git stash pop -q && git checkout -q f")
	refused(t, s, gitAttacks...)
	if got := hostGit(t, dir, "log", "--oneline", "--all"); strings.Count(got, "\n") != 1 {
		t.Errorf("host log: %s", got)
	}
	// git config on the host renames a new file over the mount, which detaches it
	// inside: it must be put back, with the new content, still read-only.
	for range 5 {
		hostGit(t, dir, "config", "realm.probe", "v"+randomID(4))
		want := hostGit(t, dir, "config", "realm.probe")
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			res := sh(t, s, "git config realm.probe; test ! -w .git/config")
			if res.Error == nil && strings.TrimSpace(res.Exec.Stdout.Head) == want && *res.Exec.ExitCode == 0 {
				break
			}
			if res.Error != nil || time.Now().After(deadline) {
				t.Fatalf("the mount did not come back: %v, %+v, conditions %+v", res.Error, res.Exec, s.Detail().Conditions)
			}
		}
		refused(t, s, "echo evil > .git/config", "git config core.fsmonitor x", "rm .git/config")
	}
	if got := s.Record().State; got != contract.Ready {
		t.Errorf("state %s: %+v", got, s.Detail().Conditions)
	}
}

// What a session writes into a protected file in the moment in which the host
// has taken its mount away is found, and the session ends.
func TestTamperingWhileAMountIsLostEndsTheSession(t *testing.T) {
	r := newRig(t)
	dir := gitDir(t)
	s := r.session(t, writable+"git: write\n", dir)
	go s.Call(t.Context(), "tamper", &contract.ToolCall{Exec: &contract.ExecCall{
		Shell:  true,
		Script: "while :; do echo '[core] fsmonitor = evil' >> .git/config; done 2>/dev/null",
	}}, nil)
	waitFor(t, func() bool { return len(s.Detail().Background) > 0 })
	hostGit(t, dir, "config", "realm.probe", "x")
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		b, _ := os.ReadFile(filepath.Join(dir, ".git/config"))
		if strings.Contains(string(b), "evil") {
			t.Fatalf("the session goes on although it wrote into .git/config:\n%s", b)
		}
		t.Skip("the mount was back before the session could write")
	}
	if d := s.Detail(); d.Record.State != contract.Failed || !slices.ContainsFunc(d.Conditions, func(c contract.Condition) bool { return c.Type == ProtectionLost }) {
		t.Errorf("state %s, conditions %+v", d.Record.State, d.Conditions)
	}
}

// Links and settings of the git directory lead host git into the workspace: the
// session writes none of it, and host git executes nothing of the session's.
func TestWhatHostGitFollows(t *testing.T) {
	r := newRig(t)
	hooks := func(t *testing.T, dir, to string) {
		t.Helper()
		must(t, os.RemoveAll(filepath.Join(dir, ".git/hooks")))
		must(t, os.Symlink(to, filepath.Join(dir, ".git/hooks")))
	}
	const plant = `
		for f in .githooks/pre-commit h/pre-commit h1 tools/filter tools/fsm hooks/pre-commit; do
			{ mkdir -p $(dirname $f) && printf '#!/bin/sh\ntouch "$PWD/OWNED"\n' > $f && chmod +x $f; } 2>/dev/null
		done
		for f in .gitconfig cfg config config-link; do printf '[core]\n\tfsmonitor = touch OWNED;false\n' >> $f 2>/dev/null; done
		true`
	for name, arrange := range map[string]func(t *testing.T, dir string){
		"hooks path":   func(t *testing.T, dir string) { hostGit(t, dir, "config", "core.hooksPath", ".githooks") },
		"include":      func(t *testing.T, dir string) { hostGit(t, dir, "config", "include.path", "../.gitconfig") },
		"conditional":  func(t *testing.T, dir string) { hostGit(t, dir, "config", "includeIf.gitdir:**.path", "../.gitconfig") },
		"file monitor": func(t *testing.T, dir string) { hostGit(t, dir, "config", "core.fsmonitor", "tools/fsm") },
		"hooks link":   func(t *testing.T, dir string) { hooks(t, dir, "../h") },
		"hook link": func(t *testing.T, dir string) {
			must(t, os.Symlink("../../h1", filepath.Join(dir, ".git/hooks/pre-commit")))
		},
		"second name": func(t *testing.T, dir string) {
			must(t, os.Link(filepath.Join(dir, ".git/config"), filepath.Join(dir, "config-link")))
		},
		"filter": func(t *testing.T, dir string) {
			hostGit(t, dir, "config", "filter.x.clean", "./tools/filter")
			must(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("f filter=x\n"), 0o644))
		},
		"config link": func(t *testing.T, dir string) {
			must(t, os.Rename(filepath.Join(dir, ".git/config"), filepath.Join(dir, "cfg")))
			must(t, os.Symlink("../cfg", filepath.Join(dir, ".git/config")))
		},
		"hook script": func(t *testing.T, dir string) {
			must(t, os.MkdirAll(filepath.Join(dir, "tools"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, "tools/filter"), []byte("#!/bin/sh\n"), 0o755))
			must(t, os.WriteFile(filepath.Join(dir, ".git/hooks/pre-commit"), []byte("#!/bin/sh\ncd tools && exec ./filter\n"), 0o755))
		},
		"bare": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(filepath.Join(dir, ".git")))
			hostGit(t, dir, "init", "-q", "--bare", ".")
		},
	} {
		for _, rule := range []string{"", "git: write\n"} {
			t.Run(name+" "+strings.TrimSpace(rule), func(t *testing.T) {
				dir := gitDir(t)
				arrange(t, dir)
				if rule != "" && (name == "hooks link" || name == "config link") {
					s, err := r.Create(t.Context(), r.request(t, writable+rule, dir))
					must(t, err)
					if err := s.WaitReady(t.Context()); contract.CodeOf(err) != contract.PathRefused {
						t.Errorf("the start ended with %v", err)
					}
					return
				}
				s := r.session(t, writable+rule, dir)
				out(t, s, plant+"; echo x >> f")
				_, err := s.Stop(t.Context(), 0)
				must(t, err)
				for _, args := range [][]string{{"status"}, {"add", "f"}, {"commit", "-qm", "x", "f"}} {
					cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=n@localhost", "-c", "safe.directory=*"}, args...)...)
					_ = cmd.Run() // a bare repository has no tree to commit
				}
				if exists(filepath.Join(dir, "OWNED")) {
					t.Error("host git executed what the session wrote")
				}
			})
		}
	}
}

// A repository made inside works there, is not seen by host git while the
// session runs, and is published at stop without what host git would execute.
func TestGitInitInside(t *testing.T) {
	r := newRig(t)
	dir := workspaceDir(t, map[string]string{"f": "one\n"})
	s := r.session(t, writable+"git: write\n", dir)
	out(t, s, gitEnv+`git init -q -b main && git add f && git commit -qm first &&
		git config core.fsmonitor 'touch '"$PWD"'/pwned' && git config alias.st '!touch '"$PWD"'/pwned' &&
		printf '#!/bin/sh\ntouch pwned\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit`)
	if cmd := exec.Command("git", "-C", dir, "status"); cmd.Run() == nil {
		t.Error("host git found a repository while the session runs")
	}
	_, err := s.Stop(t.Context(), 0)
	must(t, err)
	if got := hostGit(t, dir, "log", "--format=%s"); got != "first" {
		t.Errorf("published log: %q", got)
	}
	hostGit(t, dir, "status")
	hostGit(t, dir, "commit", "-q", "--allow-empty", "-m", "by the host")
	if exists(filepath.Join(dir, "pwned")) {
		t.Error("host git executed what the session configured")
	}
	if cfg := hostGit(t, dir, "config", "--list", "--local"); strings.Contains(cfg, "fsmonitor") || strings.Contains(cfg, "alias") {
		t.Errorf("published config:\n%s", cfg)
	}
	if held := s.Detail().HeldBack; len(held) == 0 {
		t.Error("the detail does not say what was held back")
	}
}

func TestHideAndProtect(t *testing.T) {
	r := newRig(t)
	dir := workspaceDir(t, map[string]string{
		".env": "TOKEN=secret-value-1\n", "sub/.env.local": "secret-value-2\n", ".env.example": "TOKEN=\n",
		"keys/id_ed25519": "secret-value-3\n", ".npmrc": "//r/:_authToken=secret-value-4\n",
		".vscode/tasks.json": "{}", "own/secret.txt": "secret-value-5\n", "lock/file": "locked\n",
	})
	s := r.session(t, writable+"hide: [own/secret.txt]\nprotect: [lock/**, later.cfg]\n", dir)
	if got := out(t, s, "grep -rs secret-value . || echo none"); got != "none" {
		t.Errorf("visible: %s", got)
	}
	if got := out(t, s, "cat .env.example lock/file"); got != "TOKEN=\nlocked" {
		t.Errorf("read %q", got)
	}
	refused(t, s,
		"echo x > .vscode/tasks.json", "rm -rf .vscode", "mv .vscode v", "mkdir -p .vscode/new",
		"mkdir .claude && echo '{}' > .claude/settings.json", "echo x > .mcp.json", "echo x > .envrc",
		"echo x > lock/file", "mv lock lock2", "echo x > later.cfg", "mv keys k2 && cat k2/id_ed25519 | grep secret", "rm .env",
	)
	_, err := s.Stop(t.Context(), 0)
	must(t, err)
	for _, name := range []string{".claude", ".mcp.json", ".envrc", "later.cfg"} {
		if exists(filepath.Join(dir, name)) {
			t.Errorf("%s: the placeholder is still there", name)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(dir, ".env")); string(b) != "TOKEN=secret-value-1\n" {
		t.Errorf(".env on the host: %q", b)
	}
}

// A hostile or odd tree keeps no session from starting: directories that programs
// cannot enter, more hidden names than can be covered, names that are hard to mount on.
func TestOddTreesStart(t *testing.T) {
	r := newRig(t)
	many := map[string]string{}
	for i := range 3000 {
		many["m/"+randomID(3)+strings.Repeat("x", i%7)+"/.env"] = "secret-value\n"
	}
	for name, tc := range map[string]struct {
		files map[string]string
		modes map[string]os.FileMode
	}{
		"closed directory": {map[string]string{"p/.env": "secret-value\n"}, map[string]os.FileMode{"p": 0}},
		"closed git":       {map[string]string{".git/HEAD": "", ".git/config": "", ".git/objects/": "", ".git/refs/": ""}, map[string]os.FileMode{".git": 0}},
		"read-only root":   {map[string]string{"a": ""}, map[string]os.FileMode{".": 0o555}},
		"private root":     {map[string]string{"a": ""}, map[string]os.FileMode{".": 0o500}},
		"many":             {many, nil},
		"names":            {map[string]string{"n\nl/.env": "secret-value\n", "d:,\\\"'/.env": "secret-value\n", "-rf/.env": "secret-value\n", "t\t\x1b[31m/.env": "secret-value\n"}, nil},
		"not UTF-8":        {map[string]string{"d\xff\xfe/.env": ""}, nil},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			dir := workspaceDir(t, tc.files)
			for f, mode := range tc.modes {
				must(t, os.Chmod(filepath.Join(dir, f), mode))
				t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, f), 0o755) })
			}
			if r.facts.Rootless && (tc.modes["."] != 0 || name == "closed git") {
				t.Skip("realm cannot make its own names there as this user")
			}
			s := r.session(t, writable, dir)
			got := out(t, s, "chmod 700 p 2>/dev/null; grep -rsl secret-value . || true")
			if partial := slices.ContainsFunc(s.Detail().Conditions, func(c contract.Condition) bool { return c.Type == "HidePartial" }); got != "" && !partial {
				t.Errorf("visible: %q", got)
			}
			_, err := s.Stop(t.Context(), 0)
			must(t, err)
		})
	}
}
