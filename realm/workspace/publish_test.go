package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// quarantined plans a session in an empty tree and lets make fill its quarantine.
func quarantined(t *testing.T, make func(dir string)) (*Plan, string) {
	t.Helper()
	root := tempDir(t)
	build(t, root, map[string]string{"a": "a"})
	p := newPlan(t, root, tempDir(t), "s-1", writable)
	make(p.Quarantine)
	return p, root
}

func publish(t *testing.T, p *Plan) []string {
	t.Helper()
	held, err := p.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, h := range held {
		out = append(out, h.Path+": "+h.Reason)
	}
	slices.Sort(out)
	return out
}

func TestPublishNothing(t *testing.T) {
	p, root := quarantined(t, func(string) {})
	if held := publish(t, p); len(held) > 0 {
		t.Errorf("held back %v", held)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{".": "d---------", "a": "a"}, listing(t, root)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(p.Quarantine); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the quarantine is left: %v", err)
	}
}

// TestPublishCleans fills a real repository with everything that the host would execute or follow.
func TestPublishCleans(t *testing.T) {
	secret := filepath.Join(tempDir(t), "secret")
	write(t, secret, "host secret")
	p, root := quarantined(t, func(dir string) {
		work := filepath.Join(filepath.Dir(dir), "work")
		if err := os.Mkdir(work, 0o755); err != nil {
			t.Fatal(err)
		}
		gitRepo(t, work)
		git(t, work, "config", "core.fsmonitor", "/bin/evil")
		git(t, work, "config", "remote.origin.url", "https://example.org/a.git")
		git(t, work, "config", "alias.x", "!evil")
		git(t, work, "tag", "v1")
		git(t, work, "gc", "-q")
		remove(t, dir)
		rename(t, work+"/.git", dir)
		build(t, dir, map[string]string{
			"hooks/pre-commit": "evil", "commondir": "/tmp", "config.worktree": "[core]", "modules/m/config": "[core]", "worktrees/w/gitdir": "x",
			"info/attributes": "* filter=x", "objects/info/alternates": "/home/u/.git/objects", "rebase-merge/git-rebase-todo": "exec evil",
			"remotes/o": "URL: x", "objects/link": "@symlink:" + secret, "refs/heads/link": "@symlink:" + secret, "refs/heads/pipe": "@fifo",
			"logs/dirlink": "@symlink:/etc", "index.lock": "", "gc.pid": "", "unknown": "x", "info/a\nb": "x", "lfs/objects/aa/bb/cc": "big",
		})
		if err := os.Chmod(dir+"/HEAD", 0o4755); err != nil {
			t.Fatal(err)
		}
	})
	want := []string{
		".git/(unprintable name)", ".git/commondir", ".git/config", ".git/config", ".git/config.worktree", ".git/hooks/pre-commit", ".git/info/attributes",
		".git/logs/dirlink", ".git/modules", ".git/objects/info/alternates", ".git/objects/link", ".git/rebase-merge", ".git/refs/heads/link",
		".git/refs/heads/pipe", ".git/remotes", ".git/unknown", ".git/worktrees",
	}
	var got []string
	for _, h := range publish(t, p) {
		path, _, _ := strings.Cut(h, ": ")
		got = append(got, path)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("held back (-want +got):\n%s", diff)
	}
	if out := git(t, root, "log", "--oneline", "v1"); !strings.Contains(out, "first") {
		t.Errorf("log: %s", out)
	}
	git(t, root, "fsck", "--strict")
	if out := git(t, root, "config", "--list", "--local"); strings.Contains(out, "evil") || !strings.Contains(out, "remote.origin.url=https://example.org/a.git") {
		t.Errorf("config: %s", out)
	}
	for name, content := range listing(t, root+"/.git") {
		if strings.HasPrefix(content, "L") || strings.HasPrefix(content, "p-") || content == "host secret" {
			t.Errorf("published %s: %s", name, content)
		}
	}
	if fi, err := os.Stat(root + "/.git/HEAD"); err != nil || fi.Mode() != 0o644 {
		t.Errorf("HEAD is %v, %v", fi.Mode(), err)
	}
	if _, err := os.Stat(HeldDir(p.StateDir, "s-1") + "/hooks/pre-commit"); err != nil {
		t.Errorf("what was held back is gone: %v", err)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/.git/HEAD"); err != nil {
		t.Errorf("release took the repository: %v", err)
	}
	if held := publish(t, p); len(held) > 0 {
		t.Errorf("a second publish: %v", held)
	}
}

// TestPublishWholeHeldBack: reasons to leave the host as it is.
func TestPublishWholeHeldBack(t *testing.T) {
	repo := func(dir string) {
		build(t, dir, map[string]string{"HEAD": "ref: refs/heads/main", "objects": "@dir", "refs": "@dir", "config": ""})
	}
	tests := map[string]struct {
		fill   func(string)
		before func(t *testing.T, p *Plan)
		reason string
	}{
		"no-repository": {func(dir string) { write(t, dir+"/x", "x") }, nil, heldNoRepository},
		"taken":         {repo, func(t *testing.T, p *Plan) { write(t, p.Root+"/.git/HEAD", "host") }, heldTaken},
		"file": {repo, func(t *testing.T, p *Plan) {
			remove(t, p.Root+"/.git")
			write(t, p.Root+"/.git", "gitdir: x")
		}, heldTaken},
		"shared":   {repo, func(t *testing.T, p *Plan) { newPlan(t, p.Root, p.StateDir, "s-2", writable) }, heldShared},
		"too-deep": {func(dir string) { repo(dir); write(t, dir+"/refs/"+strings.Repeat("d/", maxPublishDepth+2)+"x", "x") }, nil, heldLarge},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			p, root := quarantined(t, c.fill)
			if c.before != nil {
				c.before(t, p)
			}
			before := listing(t, root)
			if got := publish(t, p); len(got) != 1 || got[0] != ".git: "+c.reason {
				t.Errorf("held back %v, want %q", got, c.reason)
			}
			if diff := cmp.Diff(before, listing(t, root)); diff != "" {
				t.Errorf("the host's tree changed:\n%s", diff)
			}
			if _, err := os.Stat(p.Quarantine); err != nil {
				t.Errorf("the work is gone: %v", err)
			}
			if err := p.Release(); err != nil {
				t.Fatal(err)
			}
			if err := Sweep(p.StateDir, noSession); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(p.Quarantine); err != nil {
				t.Errorf("the sweep took the work: %v", err)
			}
		})
	}
}

// TestPublishWithoutPlaceholder: the host removed the empty .git meanwhile.
func TestPublishWithoutPlaceholder(t *testing.T) {
	p, root := quarantined(t, func(dir string) {
		build(t, dir, map[string]string{"HEAD": "ref: refs/heads/main", "objects": "@dir", "refs": "@dir", "config": "[core]\n\tbare = false\n"})
	})
	remove(t, root+"/.git")
	write(t, root+"/.git.realm-s-1/left", "of a crash")
	if held := publish(t, p); len(held) > 0 {
		t.Errorf("held back %v", held)
	}
	want := map[string]string{
		".": "d---------", "a": "a", ".git": "d---------", ".git/HEAD": "ref: refs/heads/main",
		".git/objects": "d---------", ".git/refs": "d---------", ".git/config": "[core]\n\tbare = \"false\"\n",
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, listing(t, root)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPublishGivesToTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: another owner")
	}
	root := tempDir(t)
	chownAll(t, root, 4242)
	p := newPlan(t, root, tempDir(t), "s-1", writable)
	var st unix.Stat_t
	for _, name := range []string{p.Quarantine, root + "/.claude", root + "/.github/workflows"} {
		if err := unix.Lstat(name, &st); err != nil || st.Uid != 4242 {
			t.Errorf("%s belongs to %d, %v", name, st.Uid, err)
		}
	}
	build(t, p.Quarantine, map[string]string{"HEAD": "ref: refs/heads/main", "objects/aa/bb": "x", "refs": "@dir", "config": ""})
	publish(t, p)
	for name := range listing(t, root) {
		if err := unix.Lstat(filepath.Join(root, name), &st); err != nil || st.Uid != 4242 || st.Gid != 4242 {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
	if err := p.Release(); err != nil {
		t.Error(err)
	}
}

func TestHostExecuted(t *testing.T) {
	root := tempDir(t)
	repo := map[string]string{"HEAD": "ref: x", "objects": "@dir", "refs": "@dir", "config": "", "hooks/post-merge": "x"}
	files := map[string]string{"a": "a", ".git/HEAD": "x", ".git/rebase-merge/git-rebase-todo": "pick 123\nexec evil\n"}
	for _, place := range []string{"old/.git", "new/.git", "hooked/.git", "bare.git", "deep/node_modules/x/.git"} {
		for name, content := range repo {
			files[place+"/"+name] = content
		}
	}
	files["file/.git"] = "gitdir: ../evil"
	files["case/.GIT"] = "gitdir: ../evil"
	build(t, root, files)
	tree := openTree(t, root, gitWrite)
	var st unix.Stat_t
	if err := unix.Stat(root+"/a", &st); err != nil {
		t.Fatal(err)
	}
	now := unixTime(st)
	got, err := tree.HostExecuted(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".git/rebase-merge/git-rebase-todo", "bare.git", "case/.GIT", "deep/node_modules/x/.git", "file/.git", "hooked/.git", "new/.git", "old/.git"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What did not change since then is not the session's, except the hook written to after.
	later := now.Add(hourLater)
	if got, err := tree.HostExecuted(t.Context(), later); err != nil || len(got) > 0 {
		t.Errorf("unchanged: %v, %v", got, err)
	}
	many := map[string]string{}
	for i := range hostExecMax + 1 {
		many[filepath.Join("many", strings.Repeat("x", i%7+1), string(rune('a'+i%26)), strings.Repeat("y", i/26+1), ".git")] = "gitdir: x"
	}
	build(t, root, many)
	got, err = tree.HostExecuted(t.Context(), now)
	wantCode(t, err, contract.LimitExceeded)
	if len(got) != hostExecMax {
		t.Errorf("%d found", len(got))
	}
}
