package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"realm.dev/policy"
)

// maxBuiltinHides bounds how many names the built-in list covers: each is a mount.
const maxBuiltinHides = 1024

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
	full := false
	err := walk(ctx, t.dir, policy.HideWalkDepth, func(e entry) (bool, error) {
		m, ok := set.MatchSelf(e.path)
		if e.typ&fs.ModeSocket != 0 {
			m, ok = policy.Entry{Rule: "hide:socket"}, true
		}
		if ok && t.applies(m, e) {
			if full = len(out) == maxBuiltinHides; full {
				return false, errCut
			}
			out = append(out, match{m, e.path})
			return false, nil
		}
		return e.typ.IsDir() && !skipped(e), nil
	})
	switch {
	case errors.Is(err, errCut) && full:
		d.conditions = append(d.conditions, hidePartial("TooMany", "more than 1024 names match the built-in hide list; the rest is visible"))
	case errors.Is(err, errCut):
		d.conditions = append(d.conditions, hidePartial("WalkCutShort", "the search for names of the built-in hide list ran out of time; what it did not reach is visible"))
	case err != nil:
		return nil, err
	}
	return out, nil
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
