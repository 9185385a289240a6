package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/policy"
)

// gitFiles are the parts of a git directory that are files, each with content
// that means the same to git as no file. A directory in their place breaks host git.
var gitFiles = map[string]string{
	"config":          "",
	"commondir":       ".",
	"config.worktree": "",
	"info/attributes": "",
}

// gitFile looks a part of a git directory up by the end of its path.
func gitFile(rel string) (content string, ok bool) {
	for name, content := range gitFiles {
		if strings.HasSuffix("/"+rel, "/"+name) {
			return content, true
		}
	}
	return "", false
}

// planGit decides what the session sees of git's own directory.
func (t *Tree) planGit(_ context.Context, session string, d *draft) error {
	t.planBare(d)
	st, err := lstatRel(t.dir, ".git")
	switch {
	case err == unix.ENOENT:
		t.planNoGit(session, d)
		return nil
	case err != nil:
		return ioError(err, "the git directory could not be examined")
	case isLink(st):
		if t.writable() {
			return refuseLink("git:" + string(t.pol.Git))
		}
		return nil
	case isDir(st) && emptyDir(t.dir, ".git"):
		t.planNoGit(session, d)
		return nil
	case isDir(st):
		t.planGitDir(d.tree(t.root), ".git", "")
		return nil
	}
	d.tree(t.root).cover(cover{path: ".git", role: roleGit, rule: "git:read", why: "names the git directory; host git follows it"})
	if isRegular(st) {
		return t.planGitFile(d)
	}
	return nil
}

// planBare covers the parts of a tree that is a git directory itself: host git
// finds a bare repository by what it holds.
func (t *Tree) planBare(d *draft) {
	if !t.writable() || !isGitDir(t.root) {
		return
	}
	td := d.tree(t.root)
	t.planGitParts(td, ".", "")
	if t.pol.Git == contract.GitWrite {
		return
	}
	for _, name := range []string{"HEAD", "objects", "refs", "packed-refs"} {
		if exists(t.dir, name) {
			td.cover(cover{path: name, role: roleGit, rule: "git:read", why: "the session may not change the repository that the workspace is"})
		}
	}
}

// planNoGit lets the session make a repository where none is: it gets a
// directory of realm's, and the host sees an empty one until Publish.
func (t *Tree) planNoGit(session string, d *draft) {
	if !t.writable() {
		return
	}
	d.quarantine = quarantineDir(t.opts.StateDir, session)
	td := d.tree(t.root)
	td.want(placeholder{path: ".git", isDir: true})
	td.cover(cover{
		path: ".git", role: roleGit, rule: "git:" + string(t.pol.Git), source: d.quarantine, write: true,
		why: "is missing: a repository made here is published at stop, without hooks and with a cleaned configuration",
	})
}

func emptyDir(root *os.File, rel string) bool {
	dir, err := openDir(root, rel)
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// planGitDir covers the git directory at rel. worktree is the part of it that
// belongs to this worktree alone, "" when there is none.
func (t *Tree) planGitDir(td *treeDraft, rel, worktree string) {
	if t.pol.Git != contract.GitWrite {
		td.cover(cover{path: rel, role: roleGit, rule: "git:read", why: "status, log and diff work; nothing that host git executes can change"})
		return
	}
	if !t.writable() {
		return
	}
	if rel != "." {
		td.cover(cover{path: rel, role: rolePin, rule: "git:write", write: true, why: "the session may commit; the directory itself stays in place"})
	}
	t.planGitParts(td, rel, worktree)
}

// planGitParts covers what host git executes or follows of the git directory at rel.
func (t *Tree) planGitParts(td *treeDraft, rel, worktree string) {
	rule := "git:" + string(t.pol.Git)
	part := func(dir, name string) {
		content, isFile := gitFile(name)
		td.want(placeholder{path: path.Join(rel, dir, name), isDir: !isFile, content: content})
		td.cover(cover{path: path.Join(rel, dir, name), role: roleGit, rule: rule, why: whyFollowed})
	}
	parts := executedParts
	if t.pol.Git == contract.GitWrite {
		parts = readOnlyGitParts(t.opts.Policy)
	}
	for _, name := range parts {
		part("", name)
	}
	if worktree != "" {
		td.cover(cover{path: path.Join(rel, worktree), role: roleGit, rule: rule, write: true, why: "this worktree's own index and HEAD"})
		for _, name := range []string{"commondir", "gitdir", "config.worktree"} {
			part(worktree, name)
		}
	}
}

// executedParts is what host git executes or follows, where the policy names only the whole directory.
var executedParts = []string{"info/attributes", "config", "hooks", "commondir", "config.worktree", "modules", "worktrees"}

// readOnlyGitParts are the policy's read-only parts, below the git directory. The attributes
// file goes with them: it names the filters that host git runs, as .gitattributes does.
func readOnlyGitParts(p *policy.Compiled) []string {
	out := []string{"info/attributes"}
	for _, e := range p.Git().Entries() {
		if part, ok := strings.CutPrefix(e.Literal, ".git/"); ok && part != out[0] {
			out = append(out, part)
		}
	}
	return out
}

// planGitFileTarget covers what the .git file names when it is in the tree and
// no git directory yet: host git would follow the file once the session made it one.
func (t *Tree) planGitFileTarget(d *draft) error {
	target, ok := t.gitFileTarget()
	if !ok || !t.writable() {
		return nil
	}
	_, err := (&chase{t: t, d: d, rule: "git:" + string(t.pol.Git), missing: placeholder{isDir: true}}).follow(absolute(t.root, target))
	return refusal(err)
}

// planGitFile follows a `.git` file: a worktree or a submodule. Its text is
// the repository's word, so the directory that it names is mounted only when
// that directory is a git directory of the same owner that names this tree itself.
func (t *Tree) planGitFile(d *draft) error {
	g, why := t.findGitDir()
	if why != "" {
		d.degraded = append(d.degraded, "git: "+why)
		return t.planGitFileTarget(d)
	}
	worktree, ok := below(g.common, g.dir)
	if !ok || worktree == "." {
		worktree = ""
	}
	if rel, ok := below(t.root, g.common); ok {
		t.planGitDir(d.tree(t.root), rel, worktree)
		return nil
	}
	write := t.writable() && t.pol.Git == contract.GitWrite
	d.mounts = append(d.mounts, Mount{
		Bind: container.Bind{
			Source: g.common, Destination: g.common, Write: write, Exec: true, Owned: true, Role: roleGit,
		},
		Rule: "git:" + string(t.pol.Git), Why: "the git directory that the tree's .git file names", IsDir: true,
	})
	if write {
		t.planGitDir(d.tree(g.common), ".", worktree)
	}
	return nil
}
