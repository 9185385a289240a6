package workspace

import (
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/policy"
)

// gitDir is what a `.git` file leads to. Both are resolved; for a submodule
// they are the same.
type gitDir struct{ dir, common string }

// findGitDir reads the tree's .git file and proves what it names. The answer
// to why not is a fixed phrase.
func (t *Tree) findGitDir() (g gitDir, why string) {
	target, ok := t.gitFileTarget()
	if !ok {
		return g, "the .git file is not one that git writes"
	}
	if g.dir, ok = t.resolveGit(t.root, target); !ok {
		return g, "the git directory that the .git file names is not there"
	}
	g.common = g.dir
	if data, err := readAbsolute(filepath.Join(g.dir, "commondir")); err == nil {
		if g.common, ok = t.resolveGit(g.dir, strings.TrimRight(data, "\r\n")); !ok {
			return g, "the git directory that the .git file names is not there"
		}
	}
	switch {
	case !isGitDir(g.common):
		return g, "the .git file does not name a git directory"
	case !t.owned(g.dir) || !t.owned(g.common):
		return g, "the git directory that the .git file names belongs to somebody else"
	case contains(g.common, t.root):
		return g, "the git directory that the .git file names contains the workspace"
	case contains(t.root, g.common):
		return g, ""
	case !t.namedBy(g):
		return g, "the git directory that the .git file names does not name this tree: it is not mounted"
	}
	if _, err := policy.Workspace(g.common, t.host); err != nil {
		return g, "the git directory that the .git file names lies in a place that is never mounted"
	}
	return g, ""
}

// gitFileTarget is what the tree's .git file names, as it says it.
func (t *Tree) gitFileTarget() (string, bool) {
	data, err := readBounded(t.dir, ".git", 4096)
	if err != nil {
		return "", false
	}
	return gitFileText(string(data))
}

// gitFileText is what a .git file of this text names.
func gitFileText(text string) (string, bool) {
	target, ok := strings.CutPrefix(text, "gitdir: ")
	target = strings.TrimRight(target, "\r\n")
	return target, ok && target != "" && !strings.ContainsAny(target, "\x00\n")
}

// absolute is name below base unless it is absolute; it is not cleaned, for
// what is before a ".." may be a link.
func absolute(base, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return base + "/" + name
}

// resolveGit resolves target as git would. A name that goes through a link is
// refused: git inside would look for the directory under that name.
func (t *Tree) resolveGit(base, target string) (string, bool) {
	if !filepath.IsAbs(target) {
		target = filepath.Join(base, target)
	}
	target = filepath.Clean(target)
	real, err := filepath.EvalSymlinks(target)
	return real, err == nil && real == target
}

// namedBy reports whether the git directory says that t is its tree: git worktree writes
// the file gitdir, a submodule has core.worktree.
func (t *Tree) namedBy(g gitDir) bool {
	if back, err := readAbsolute(filepath.Join(g.dir, "gitdir")); err == nil {
		file := strings.TrimRight(back, "\r\n")
		if !filepath.IsAbs(file) {
			file = filepath.Join(g.dir, file)
		}
		return filepath.Base(file) == ".git" && t.isRoot(filepath.Dir(file))
	}
	config, err := readAbsolute(filepath.Join(g.dir, "config"))
	if err != nil {
		return false
	}
	vars, err := parseConfig([]byte(config))
	if err != nil {
		return false
	}
	for _, v := range vars {
		if v.section == "core" && v.sub == "" && v.key == "worktree" {
			dir := v.value
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(g.dir, dir)
			}
			return t.isRoot(dir)
		}
	}
	return false
}

func (t *Tree) isRoot(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && idOf(&st) == t.id
}

func (t *Tree) owned(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && int(st.Uid) == t.uid
}

// isGitDir is git's own test.
func isGitDir(dir string) bool {
	var head, objects, refs unix.Stat_t
	return unix.Lstat(filepath.Join(dir, "HEAD"), &head) == nil && !isDir(&head) &&
		unix.Stat(filepath.Join(dir, "objects"), &objects) == nil && isDir(&objects) &&
		unix.Stat(filepath.Join(dir, "refs"), &refs) == nil && isDir(&refs)
}

// below returns name's path below root.
func below(root, name string) (string, bool) {
	if name == root {
		return ".", true
	}
	rel, ok := strings.CutPrefix(name, strings.TrimSuffix(root, "/")+"/")
	return rel, ok
}

// contains reports whether name is dir or lies in it.
func contains(dir, name string) bool {
	_, ok := below(dir, name)
	return ok
}
