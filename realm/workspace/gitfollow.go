package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// repository is a git directory that a git on the host uses, with the
// directories in which it runs for it.
type repository struct {
	dir   string
	bases []string
}

// Bounds of what is looked at of git's own files.
const (
	gitScanTime    = 500 * time.Millisecond
	maxGitNames    = 8192
	maxGitConfigs  = 64
	maxConfigDepth = 10 // git's own bound of includes
	maxModules     = 64
	maxAbove       = 64
)

// planFollowed covers what the git directories and the configuration of the
// host lead to inside the tree.
func (t *Tree) planFollowed(ctx context.Context, _ string, d *draft) error {
	if !t.writable() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, gitScanTime)
	defer cancel()
	s := &gitScan{t: t, d: d, ctx: ctx, seen: map[string]bool{}}
	for _, name := range s.globalConfigs() {
		if err := s.config(name, t.root, 0); err != nil {
			return err
		}
	}
	for _, r := range t.repositories() {
		if err := s.repository(r, 0); err != nil {
			return err
		}
	}
	return nil
}

// repositories are those that a git run in the tree, or in a directory above it, uses.
func (t *Tree) repositories() []repository {
	var out []repository
	for dir, i := t.root, 0; i < maxAbove; i++ {
		if dir == t.root || t.trusted(dir) {
			for _, name := range []string{filepath.Join(dir, ".git"), dir} {
				for _, g := range gitDirsAt(name) {
					out = append(out, repository{dir: g, bases: []string{dir}})
				}
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return out
}

// trusted reports whether git takes a repository in dir for the user's own.
func (t *Tree) trusted(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) == nil && (int(st.Uid) == t.uid || int(st.Uid) == os.Geteuid())
}

// gitDirsAt returns the git directory that name is or names, and the common one
// that it belongs to.
func gitDirsAt(name string) []string {
	if text, err := readAbsolute(name); err == nil {
		target, ok := gitFileText(text)
		if !ok {
			return nil
		}
		name = filepath.Clean(absolute(filepath.Dir(name), target))
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil
	}
	if common, err := readAbsolute(filepath.Join(real, "commondir")); err == nil {
		dir := filepath.Clean(absolute(real, strings.TrimRight(common, "\r\n")))
		if dir != real && isGitDir(dir) {
			return []string{dir, real}
		}
	}
	if !isGitDir(real) {
		return nil
	}
	return []string{real}
}

// gitScan is one look through git's own files.
type gitScan struct {
	t       *Tree
	d       *draft
	ctx     context.Context //nolint:containedctx // lives for one plan
	seen    map[string]bool
	names   int
	configs int
	modules int
}

func (s *gitScan) note(text string) {
	text = "git: " + text
	if !slices.Contains(s.d.degraded, text) {
		s.d.degraded = append(s.d.degraded, text)
	}
}

// follow covers what name leads to, and returns what that is, "" for nothing.
func (s *gitScan) follow(name, rule string, missing placeholder) (string, error) {
	real, err := (&chase{t: s.t, d: s.d, rule: rule, missing: missing}).follow(name)
	if err != nil {
		return "", refusal(err)
	}
	s.d.seekLinks(s.t, real, rule)
	return real, nil
}

// refusal is what of err refuses the start.
func refusal(err error) error {
	if e, ok := errors.AsType[*contract.Error](err); ok {
		return e
	}
	return nil
}

// repository looks through one git directory.
func (s *gitScan) repository(r repository, depth int) error {
	if s.seen["repository "+r.dir] {
		return nil
	}
	s.seen["repository "+r.dir] = true
	if err := s.links(r.dir, ""); err != nil {
		return err
	}
	bases := append(slices.Clone(r.bases), worktreesOf(r.dir)...)
	if err := s.scripts(filepath.Join(r.dir, "hooks"), bases); err != nil {
		return err
	}
	for _, base := range bases {
		for _, name := range s.configsOf(r.dir) {
			if err := s.config(name, base, 0); err != nil {
				return err
			}
		}
	}
	return s.submodules(r.dir, depth)
}

// configsOf are the configuration files of a git directory and of its worktrees.
func (s *gitScan) configsOf(dir string) []string {
	out := []string{filepath.Join(dir, "config"), filepath.Join(dir, "config.worktree")}
	for _, n := range subdirs(filepath.Join(dir, "worktrees")) {
		out = append(out, filepath.Join(n, "config.worktree"))
	}
	return slices.DeleteFunc(out, func(name string) bool {
		_, err := os.Lstat(name)
		return errors.Is(err, fs.ErrNotExist)
	})
}

// worktreesOf are the trees that use a git directory besides the one around it.
func worktreesOf(dir string) []string {
	var out []string
	if filepath.Base(dir) == ".git" {
		out = append(out, filepath.Dir(dir))
	}
	for _, n := range subdirs(filepath.Join(dir, "worktrees")) {
		if text, err := readAbsolute(filepath.Join(n, "gitdir")); err == nil {
			out = append(out, filepath.Dir(absolute(n, strings.TrimRight(text, "\r\n"))))
		}
	}
	return out
}

func subdirs(dir string) []string {
	var out []string
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, n := range list[:min(len(list), maxModules)] {
		if n.IsDir() {
			out = append(out, filepath.Join(dir, n.Name()))
		}
	}
	return out
}

// submodules looks through the git directories below modules; a name of one may have several segments.
func (s *gitScan) submodules(dir string, depth int) error {
	if depth > maxConfigDepth {
		return nil
	}
	for _, n := range append(subdirs(filepath.Join(dir, "modules")), s.nested(dir)...) {
		if s.modules++; s.modules > maxModules {
			s.note("there are more submodules than realm looks at")
			return nil
		}
		if !isGitDir(n) {
			if err := s.submodules(n, depth+1); err != nil {
				return err
			}
			continue
		}
		if err := s.repository(repository{dir: n, bases: treeOf(n)}, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// nested are the directories of a submodule's name that has several segments.
func (s *gitScan) nested(dir string) []string {
	if isGitDir(dir) {
		return nil
	}
	return subdirs(dir)
}

// treeOf is the worktree that a submodule's configuration names.
func treeOf(dir string) []string {
	config, err := readAbsolute(filepath.Join(dir, "config"))
	if err != nil {
		return nil
	}
	vars, err := parseConfig([]byte(config))
	if err != nil {
		return nil
	}
	var out []string
	for _, v := range vars {
		if v.section == "core" && v.sub == "" && v.key == "worktree" {
			out = append(out, filepath.Clean(absolute(dir, v.value)))
		}
	}
	return out
}

// links follows every symbolic link of a git directory that git follows too.
// Objects, refs and logs are data, and many; modules are repositories of their own.
func (s *gitScan) links(dir, rel string) error {
	f, err := os.Open(filepath.Join(dir, rel))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.note("a part of the git directory could not be read")
		}
		return nil
	}
	defer f.Close()
	for {
		list, err := f.ReadDir(256)
		for _, n := range list {
			if s.names++; s.names > maxGitNames || s.ctx.Err() != nil {
				s.note("the git directory is too large to look for links in it")
				return nil
			}
			if err := s.entry(dir, path.Join(rel, n.Name()), n.Type()); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (s *gitScan) entry(dir, rel string, typ fs.FileMode) error {
	name := filepath.Join(dir, rel)
	switch {
	case typ&fs.ModeSymlink != 0:
		if _, _, ok := s.d.reachable(s.t, name); ok && rel != "info" {
			return nil // the session may write there anyway, and what it may not is covered
		}
		_, err := s.follow(name, "git:"+string(s.t.pol.Git), placeholder{isDir: !isGitFile(rel)})
		return err
	case typ.IsRegular() && (isGitFile(rel) || strings.HasPrefix(rel, "hooks/")):
		s.d.seekLinks(s.t, name, "git:"+string(s.t.pol.Git))
	case typ.IsDir() && (slices.Contains([]string{"hooks", "info", "objects", "objects/info", "worktrees", "modules"}, rel) || path.Dir(rel) == "worktrees"):
		return s.links(dir, rel)
	}
	return nil
}

// isGitFile reports whether a part of a git directory is a file.
func isGitFile(rel string) bool {
	_, ok := gitFile(rel)
	return ok || slices.Contains([]string{"HEAD", "index", "packed-refs", "gitdir", "objects/info/alternates"}, rel) || strings.HasPrefix(rel, "hooks/")
}
