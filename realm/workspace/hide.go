package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// maxBuiltinHides bounds how many names the built-in list covers, each by a mount;
// maxBuiltinFound how many the search remembers to choose from.
const (
	maxBuiltinHides = 256
	maxBuiltinFound = 16384
)

// planHide finds the names to hide. The built-in list is looked for within
// bounds, so that a large tree still starts; the policy's own patterns exactly.
func (t *Tree) planHide(ctx context.Context, _ string, d *draft) error {
	td := d.tree(t.root)
	set := t.opts.Policy.Hide()
	found, err := t.findBuiltin(ctx, set.BuiltIn(), d)
	if err != nil {
		return err
	}
	own, err := t.findExact(ctx, set.Own())
	if err != nil {
		return err
	}
	for _, m := range append(found, own...) {
		if c, ok := t.hideCover(m); ok {
			td.cover(c)
		} else {
			d.degraded = append(d.degraded, "hide: "+m.Rule+": a symbolic link to a directory that holds it is not covered")
		}
	}
	return nil
}

// findBuiltin looks for the built-in hidden names, and for sockets, which a
// program inside could connect to: what answers is a process of the host.
func (t *Tree) findBuiltin(ctx context.Context, set *policy.PathSet, d *draft) ([]match, error) {
	ctx, cancel := context.WithTimeout(ctx, policy.HideWalkMs*time.Millisecond)
	defer cancel()
	var out []match
	closed := false
	err := walk(ctx, t.dir, policy.HideWalkDepth, func(e entry) (bool, error) {
		m, ok := set.MatchSelf(e.path)
		if e.typ&fs.ModeSocket != 0 {
			m, ok = policy.Entry{Rule: "hide:socket"}, true
		}
		if ok && t.applies(m, e) {
			if len(out) == maxBuiltinFound {
				return false, errCut
			}
			out = append(out, match{m, e.path})
			return false, nil
		}
		closed = closed || t.locked(e)
		return e.typ.IsDir() && !skipped(e), nil
	})
	if err != nil && !errors.Is(err, errCut) {
		return nil, err
	}
	// The same names in every start: the outermost first.
	slices.SortStableFunc(out, func(a, b match) int {
		return cmp.Or(cmp.Compare(strings.Count(a.path, "/"), strings.Count(b.path, "/")), cmp.Compare(a.path, b.path))
	})
	out, odd := mountable(out)
	if c, ok := partial(len(out) > maxBuiltinHides, odd, closed, err != nil); ok {
		d.conditions = append(d.conditions, c)
	}
	return out[:min(len(out), maxBuiltinHides)], nil
}

// partial says why names of the built-in list may be visible.
func partial(full, odd, closed, cut bool) (contract.Condition, bool) {
	switch {
	case full:
		return hidePartial("TooMany", "more than 256 names match the built-in hide list; those that lie deepest are visible"), true
	case odd:
		return hidePartial("UnmountableName", "a name that matches the built-in hide list is not valid UTF-8, which the engine cannot mount on; it is visible"), true
	case closed:
		return hidePartial("Unreadable", "a directory that realm may not read was not searched for names of the built-in hide list; a program may open it"), true
	case cut:
		return hidePartial("WalkCutShort", "the search for names of the built-in hide list ran out of time; what it did not reach is visible"), true
	}
	return contract.Condition{}, false
}

// mountable drops the names that the engine cannot mount on. All of what a spec
// holds is JSON, in which a name has to be valid UTF-8.
func mountable(list []match) (out []match, dropped bool) {
	out = slices.DeleteFunc(slices.Clone(list), func(m match) bool { return !utf8.ValidString(m.path) })
	return out, len(out) < len(list)
}

// locked reports whether a directory is the owner's, whom a program in a
// writable tree is, and still not one that realm can read.
func (t *Tree) locked(e entry) bool {
	if !e.typ.IsDir() || !t.writable() || skipped(e) {
		return false
	}
	st, err := lstatAt(e.dir, e.name)
	return err == nil && int(st.Uid) == t.uid && unix.Faccessat(int(e.dir.Fd()), e.name, unix.R_OK|unix.X_OK, unix.AT_EACCESS) != nil
}

func skipped(e entry) bool {
	if policy.SkipDir(e.name) {
		return true
	}
	_, err := lstatAt(e.dir, path.Join(e.name, "pyvenv.cfg"))
	return err == nil
}

// hideCover covers what a hidden name leads to. A link hides nothing by itself:
// its target is covered, if it lies in the tree. Outside it is not visible
// anyway. It reports false for a link to a directory that holds the link.
func (t *Tree) hideCover(m match) (cover, bool) {
	c := cover{path: m.path, role: roleHide, rule: m.Rule, why: "is hidden"}
	st, err := lstatRel(t.dir, m.path)
	if err != nil || !isLink(st) {
		return c, true
	}
	target, err := filepath.EvalSymlinks(filepath.Join(t.root, m.path))
	if err != nil {
		return c, true // dangling: settle leaves it out
	}
	rel, ok := below(t.root, target)
	if !ok {
		return c, true
	}
	if contains(target, filepath.Join(t.root, path.Dir(m.path))) {
		return c, false
	}
	c.path, c.why = rel, "is what a hidden name leads to"
	return c, true
}
