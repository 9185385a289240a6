package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// Host git executes and follows more than what lies in its directory: links and
// its configuration lead to files that the session could write. A chase goes
// the way that the kernel will go later, and covers what of it lies in a tree of the session.
type chase struct {
	t    *Tree
	d    *draft
	rule string
	// missing is what keeps a missing name from being made: a file where git
	// would read a directory with an error.
	missing placeholder
	links   int
}

// The reasons of covers that a chase asks for, and of what it could not do.
const (
	ruleGitConfig = "git:config"
	whyFollowed   = "host git executes or follows it"
	maxFollowed   = 64
)

// errFollowed says that a way leads to nothing that could be read.
var errFollowed = errors.New("leads nowhere")

// follow walks name, which is absolute and may hold "..", and returns what it
// really leads to. Its contract errors refuse the start.
func (c *chase) follow(name string) (real string, err error) {
	cur, rest := "/", strings.Split(name, "/")
	for len(rest) > 0 {
		step := rest[0]
		rest = rest[1:]
		switch step {
		case "", ".":
			continue
		case "..":
			c.pin(cur)
			cur = path.Dir(cur)
			continue
		}
		next := path.Join(cur, step)
		var st unix.Stat_t
		err := unix.Lstat(next, &st)
		switch {
		case err != nil:
			return "", c.absent(next, rest, err)
		case isLink(&st):
			target, err := c.link(next)
			if err != nil {
				return "", err
			}
			if path.IsAbs(target) {
				cur = "/"
			}
			rest = append(strings.Split(target, "/"), rest...)
			continue
		case !isDir(&st) && len(rest) > 0: // no directory: it must not become one
			return "", errors.Join(errFollowed, c.cover(next, false))
		}
		cur = next
		if len(rest) == 0 {
			return cur, c.cover(cur, isDir(&st))
		}
	}
	return cur, c.cover(cur, true)
}

// link reads a link that the session cannot change.
func (c *chase) link(name string) (string, error) {
	if _, _, ok := c.d.reachable(c.t, name); ok || c.t.inWritableMount(name) {
		return "", c.refuseFollowed("a symbolic link that the session could replace")
	}
	if c.links++; c.links > maxLinks {
		return "", errFollowed
	}
	target, err := os.Readlink(name)
	if err != nil {
		return "", errFollowed
	}
	return target, nil
}

// absent keeps a missing name from being made.
func (c *chase) absent(name string, rest []string, err error) error {
	root, rel, ok := c.d.reachable(c.t, name)
	switch {
	case c.t.inWritableMount(name):
		return c.refuseFollowed("a directory that the policy mounts writable")
	case !ok || !errors.Is(err, fs.ErrNotExist):
		return errFollowed
	}
	for _, step := range rest {
		if step == ".." {
			return c.refuseFollowed("a missing directory with a .. after it")
		}
	}
	want := c.missing
	want.path = path.Join(append([]string{rel}, rest...)...)
	td := c.d.tree(root)
	td.want(want)
	td.cover(cover{path: want.path, role: roleGit, rule: c.rule, why: whyFollowed})
	return errors.Join(errFollowed, c.count())
}

// cover makes what a way ends at read-only, where the session could write it.
func (c *chase) cover(name string, dir bool) error {
	root, rel, ok := c.d.reachable(c.t, name)
	switch {
	case c.t.inWritableMount(name):
		return c.refuseFollowed("a directory that the policy mounts writable")
	case !ok:
		return nil
	case rel == ".":
		return c.refuseFollowed("the whole workspace")
	}
	td := c.d.tree(root)
	// What is there now may be the placeholder of another session.
	td.want(placeholder{path: rel, isDir: dir})
	td.cover(cover{path: rel, role: roleGit, rule: c.rule, why: whyFollowed})
	return c.count()
}

// pin keeps a directory that a ".." comes after from becoming a link.
func (c *chase) pin(dir string) {
	if root, rel, ok := c.d.reachable(c.t, dir); ok && rel != "." {
		c.d.tree(root).cover(cover{path: rel, role: rolePin, rule: c.rule, write: true, why: "host git follows a path through it"})
	}
}

func (c *chase) count() error {
	if c.d.followed++; c.d.followed > maxFollowed {
		return c.refuseFollowed("more than 64 names in the workspace")
	}
	return nil
}

func (c *chase) refuseFollowed(what string) error {
	return contract.Errorf(contract.PathRefused, "%s: host git follows its own files into %s", c.rule, what).
		WithHint("change what the git directory's links and configuration (core.hooksPath, include.path, commands) lead to, or use mode read-only")
}

// inWritableMount reports whether a name lies in a further directory that the session may write.
func (t *Tree) inWritableMount(name string) bool {
	return slices.ContainsFunc(t.pol.Mounts, func(m contract.Mount) bool { return m.Write && contains(resolved(m.Path), name) })
}

// reachable says in which tree of the session a name lies, if a program could
// write there: not below what is covered already.
func (d *draft) reachable(t *Tree, name string) (root, rel string, ok bool) {
	if rel, ok := below(t.root, name); ok {
		return t.root, rel, t.writable() && !d.tree(t.root).covered(rel)
	}
	for _, m := range d.mounts {
		if rel, ok := below(m.Source, name); ok && m.Role == roleGit && m.Write {
			return m.Source, rel, !d.tree(m.Source).covered(rel)
		}
	}
	return "", "", false
}

// covered reports whether rel lies in a read-only cover.
func (td *treeDraft) covered(rel string) bool {
	for _, c := range td.covers {
		if !c.write && c.role != roleHide && contains(c.path, rel) {
			return true
		}
	}
	return false
}
