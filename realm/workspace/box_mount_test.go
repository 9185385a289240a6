package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// gitRepo makes a real repository with one commit.
func gitRepo(t testing.TB, dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	git(t, dir, "init", "-q", "-b", "main", ".")
	git(t, dir, "config", "user.email", "a@example.org")
	git(t, dir, "config", "user.name", "a")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "first")
}

func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	return gitAs(t, os.Geteuid(), dir, args...)
}

func gitAs(t testing.TB, uid int, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	if uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// planned opens dir, which belongs to uid, and plans a session in it.
func planned(t *testing.T, dir, doc string, uid int) (*Tree, *Plan) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes mounts")
	}
	if uid != 0 {
		chownAll(t, dir, uid)
	}
	state := worldDir(t)
	tree, err := Open(dir, Options{StateDir: state, Policy: compile(t, doc)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	p, err := tree.Plan(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(); err != nil {
			t.Error(err)
		}
	})
	if uid != 0 {
		chownAll(t, state, uid)
	}
	return tree, p
}

func chownAll(t testing.TB, dir string, uid int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, uid, uid)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// users are who owns the box: root, and a user without privileges in a user namespace.
var users = map[string]int{"rootful": 0, "rootless": 4242}

func TestBoxProtects(t *testing.T) {
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			dir := worldDir(t)
			gitRepo(t, dir)
			build(t, dir, map[string]string{".husky/pre-commit": "true", "src/a": "a", ".env": "SECRET=1", "deep/er/.env": "SECRET=2", "keys/id_rsa": "k"})
			_, p := planned(t, dir, writable, uid)
			b := startBox(t, p, uid)
			missing, err := p.Verify(b.pid)
			if err != nil || len(missing) > 0 {
				t.Fatalf("not in force: %v %v", missing, err)
			}
			b.run("cd " + dir)
			b.works("echo b > src/b")
			b.fails("echo x > .husky/pre-commit", "Read-only file system")
			b.fails("echo x > .husky/new", "Read-only file system")
			b.fails("mv .husky h2", "busy")
			b.fails("rm -r .husky", "Read-only file system")
			b.fails("mkdir .claude/x", "Read-only file system") // a placeholder
			b.fails("rmdir .claude", "busy")
			b.fails("mv .github g2", "busy") // the pin of .github/workflows
			b.works("echo t > .github/CODEOWNERS")
			b.fails("echo t > .github/workflows/x.yml", "Read-only file system")
			b.fails("mv .git g2", "busy")
			b.fails("echo x >> .git/config", "Read-only file system")
			b.fails("echo x > .git/hooks/pre-commit", "Read-only file system")
			if out := b.works("cat .env deep/er/.env keys/id_rsa"); out != "" {
				t.Errorf("hidden files read %q", out)
			}
			b.fails("rm .env", "busy")
			b.fails("mv deep d2", "busy")
			b.fails("mv deep/er deep/d2", "busy")
			if out := b.works("git -c safe.directory='*' log --oneline"); !strings.Contains(out, "first") {
				t.Errorf("git log printed %q", out)
			}
			if st := git(t, dir, "-c", "safe.directory=*", "status", "--short"); strings.Contains(st, ".claude") || strings.Contains(st, ".envrc") {
				t.Errorf("git on the host sees placeholders: %s", st)
			}
		})
	}
}

func TestBoxGitWrite(t *testing.T) {
	dir := worldDir(t)
	gitRepo(t, dir)
	_, p := planned(t, dir, gitWrite, 0)
	b := startBox(t, p, 0)
	b.run("cd " + dir)
	b.works("echo a > a; git add a; git -c gc.auto=0 commit -q -m second; git branch topic; git stash list")
	b.fails("git config alias.x '!true'", "busy")
	for _, name := range []string{"config", "commondir", "config.worktree", "info/attributes"} {
		b.fails("echo x >> .git/"+name, "Read-only file system")
		b.fails("mv .git/"+name+" .git/moved-"+filepath.Base(name), "busy")
	}
	for _, name := range []string{"hooks", "modules", "worktrees"} {
		b.fails("echo x > .git/"+name+"/x", "Read-only file system")
		b.fails("mv .git/"+name+" .git/moved-"+filepath.Base(name), "busy")
	}
	b.fails("mv .git g2", "busy")
	b.fails("mv .git/info .git/i2", "busy")
	if out := git(t, dir, "log", "--oneline"); !strings.Contains(out, "second") {
		t.Errorf("the host does not see the commit: %s", out)
	}
	if out := git(t, dir, "status", "--short"); out != "" {
		t.Errorf("the host's status is %q", out)
	}
}

func TestBoxReadOnly(t *testing.T) {
	dir := worldDir(t)
	gitRepo(t, dir)
	build(t, dir, map[string]string{".env": "SECRET=1", "sub/.env": "SECRET=1"})
	_, p := planned(t, dir, readOnly, 0)
	for _, m := range p.Mounts {
		if m.Role != roleHide && m.Role != roleCover {
			t.Errorf("a read-only tree needs no %s on %s", m.Role, m.Destination)
		}
	}
	b := startBox(t, p, 0)
	b.run("cd " + dir)
	b.fails("echo x > new", "Read-only file system")
	b.fails("mv sub s2", "Read-only file system")
	if out := b.works("cat .env sub/.env"); out != "" {
		t.Errorf("hidden files read %q", out)
	}
}

// TestBoxQuarantine makes a repository inside where none was.
func TestBoxQuarantine(t *testing.T) {
	dir := worldDir(t)
	build(t, dir, map[string]string{"a": "a"})
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	_, p := planned(t, dir, writable, 0)
	b := startBox(t, p, 0)
	b.run("cd " + dir)
	b.works("git init -q . && git config user.email a@example.org && git config user.name a && git config core.fsmonitor /bin/evil && echo x > .git/hooks/post-checkout && git add a && git commit -q -m inside")
	if names, err := os.ReadDir(dir + "/.git"); err != nil || len(names) > 0 {
		t.Fatalf("the host sees %v, %v", names, err)
	}
	held, err := p.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if out := git(t, dir, "log", "--oneline"); !strings.Contains(out, "inside") {
		t.Errorf("the host's log is %q", out)
	}
	if out := git(t, dir, "status", "--short"); out != "" {
		t.Errorf("the host's status is %q", out)
	}
	want := map[string]bool{".git/config": false, ".git/hooks/post-checkout": false}
	for _, h := range held {
		if _, ok := want[h.Path]; !ok {
			t.Errorf("held back %+v", h)
		}
		want[h.Path] = true
	}
	for path, seen := range want {
		if !seen {
			t.Errorf("%s was not held back", path)
		}
	}
	if out, err := os.ReadFile(dir + "/.git/config"); err != nil || strings.Contains(string(out), "fsmonitor") {
		t.Errorf("the published configuration is %s", out)
	}
}
