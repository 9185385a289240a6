package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLinkedWorktree plans a real worktree, whose git directory lies elsewhere.
func TestLinkedWorktree(t *testing.T) {
	base := tempDir(t)
	main, tree := filepath.Join(base, "main"), filepath.Join(base, "tree")
	if err := os.Mkdir(main, 0o755); err != nil {
		t.Fatal(err)
	}
	gitRepo(t, main)
	git(t, main, "worktree", "add", "-q", tree)
	for name, doc := range map[string]string{"read-only": readOnly, "write": writable, "git-write": gitWrite} {
		t.Run(name, func(t *testing.T) {
			before := listing(t, main)
			p := newPlan(t, tree, tempDir(t), "s-1", doc)
			text := strings.ReplaceAll(describe(p), main, "MAIN")
			if err := p.Release(); err != nil {
				t.Fatal(err)
			}
			checkOrder(t, p)
			golden(t, "worktree-"+name, text)
			if after := listing(t, main); len(after) != len(before) {
				t.Errorf("left %d names in the git directory", len(after)-len(before))
			}
		})
	}
}

// TestLinkedGitMustNameTheTree: a .git file is the repository's word. Only a
// git directory that names the tree itself is shown to the session.
func TestLinkedGitMustNameTheTree(t *testing.T) {
	base := tempDir(t)
	fake := map[string]string{"HEAD": "x", "objects/a": "", "refs/a": "", "config": "[core]\n\tbare = false\n"}
	for name, content := range fake {
		write(t, filepath.Join(base, "victim", name), content)
	}
	write(t, filepath.Join(base, "secrets", "id"), "k")
	if err := os.Symlink(filepath.Join(base, "victim"), filepath.Join(base, "link")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, why string }{
		"no-back-pointer": {"gitdir: " + base + "/victim\n", "does not name this tree"},
		"relative":        {"gitdir: ../victim\n", "does not name this tree"},
		"not-git":         {"gitdir: " + base + "/secrets\n", "not name a git directory"},
		"missing":         {"gitdir: /none\n", "is not there"},
		"link":            {"gitdir: " + base + "/link\n", "is not there"},
		"not-a-git-file":  {"[core]\n", "not one that git writes"},
		"two-lines":       {"gitdir: " + base + "/victim\nx\n", "not one that git writes"},
		"above":           {"gitdir: " + base + "\n", "not name a git directory"},
		"empty":           {"", "not one that git writes"},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(base, "w-"+name)
			write(t, root+"/.git", c.text)
			p := newPlan(t, root, tempDir(t), "s-1", gitWrite)
			defer p.Release()
			for _, m := range p.Mounts {
				if m.Role == roleGit && m.Destination != root+"/.git" {
					t.Errorf("%s is mounted", m.Destination)
				}
			}
			if len(p.Degraded) != 1 || !strings.Contains(p.Degraded[0], c.why) {
				t.Errorf("degraded %q, want %q", p.Degraded, c.why)
			}
		})
	}
}

// TestLinkedGitOfAnotherOwner: the git directory must belong to who owns the tree.
func TestLinkedGitOfAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: another owner")
	}
	base := tempDir(t)
	root := filepath.Join(base, "tree")
	for name, content := range map[string]string{"HEAD": "x", "objects/a": "", "refs/a": "", "config": "[core]\n\tworktree = ../tree\n"} {
		write(t, filepath.Join(base, "git", name), content)
	}
	write(t, root+"/.git", "gitdir: ../git\n")
	mounted := func() bool {
		p := newPlan(t, root, tempDir(t), "s-1", writable)
		defer p.Release()
		for _, m := range p.Mounts {
			if m.Destination == base+"/git" {
				return true
			}
		}
		return false
	}
	if !mounted() {
		t.Error("the owner's own git directory is not mounted")
	}
	chownAll(t, base+"/git", 4242)
	if mounted() {
		t.Error("somebody else's git directory is mounted")
	}
}

// TestSubmodule plans a real submodule.
func TestSubmodule(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	base := tempDir(t)
	for _, d := range []string{"lib", "app"} {
		if err := os.Mkdir(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
		gitRepo(t, filepath.Join(base, d))
	}
	git(t, base+"/app", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", base+"/lib", "sub")
	p := newPlan(t, base+"/app/sub", tempDir(t), "s-1", gitWrite)
	defer p.Release()
	found := map[string]bool{}
	for _, m := range p.Mounts {
		found[strings.TrimPrefix(m.Destination, base)] = m.Write
	}
	for name, write := range map[string]bool{"/app/.git/modules/sub": true, "/app/.git/modules/sub/config": false, "/app/.git/modules/sub/hooks": false, "/app/sub/.git": false} {
		if got, ok := found[name]; !ok || got != write {
			t.Errorf("%s: mounted %v, writable %v", name, ok, got)
		}
	}
}

// TestBoxWorktree works in a real worktree of a box.
func TestBoxWorktree(t *testing.T) {
	base := worldDir(t)
	if err := os.Mkdir(base+"/main", 0o755); err != nil {
		t.Fatal(err)
	}
	gitRepo(t, base+"/main")
	git(t, base+"/main", "worktree", "add", "-q", base+"/tree")
	git(t, base+"/main", "worktree", "add", "-q", base+"/other")
	_, p := planned(t, base+"/tree", gitWrite, 0)
	b := startBox(t, p, 0)
	b.run("cd " + base + "/tree")
	b.works("echo a > a && git add a && git commit -q -m inside")
	b.fails("echo x >> "+base+"/main/.git/config", "Read-only file system")
	b.fails("echo x >> "+base+"/main/.git/worktrees/tree/commondir", "Read-only file system")
	b.fails("echo x >> "+base+"/main/.git/worktrees/other/HEAD", "Read-only file system")
	b.fails("mv "+base+"/main/.git/worktrees "+base+"/main/.git/w2", "busy")
	b.fails("echo x > .git", "Read-only file system")
	b.fails("ls "+base+"/main/a", "No such file")
	if out := git(t, base+"/main", "log", "--oneline", "tree"); !strings.Contains(out, "inside") {
		t.Errorf("the host does not see the commit: %s", out)
	}
}
