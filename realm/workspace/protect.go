package workspace

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// planProtect finds every protected name that exists and asks for placeholders
// for those that are missing. In a read-only tree there is nothing to do.
func (t *Tree) planProtect(ctx context.Context, _ string, d *draft) error {
	if !t.writable() {
		return nil
	}
	td := d.tree(t.root)
	set := t.opts.Policy.Protect()
	for _, half := range []*policy.PathSet{set.BuiltIn(), set.Own()} {
		found, err := t.findExact(ctx, half)
		if err != nil {
			return err
		}
		for _, f := range found {
			td.protect(f.path, f.Entry)
		}
		for _, e := range half.Entries() {
			if err := t.planLiteral(td, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// planLiteral makes sure that a protected name without wildcards cannot be
// made, and that what is above it stays what it is.
func (t *Tree) planLiteral(td *treeDraft, e policy.Entry) error {
	if e.Literal == "" {
		return nil
	}
	for i, c := range e.Literal + "/" {
		if c != '/' {
			continue
		}
		name := e.Literal[:i]
		st, err := lstatRel(t.dir, name)
		switch {
		case err == unix.ENOENT:
			td.protect(e.Literal, e)
			return nil
		case err != nil:
			return ioError(err, "a protected name could not be examined")
		case isLink(st):
			return refuseLink(e.Rule)
		case name != e.Literal && !isDir(st):
			// A file where a directory would have to be: as long as it stays,
			// nothing can be below it.
			td.cover(cover{path: name, role: rolePin, rule: e.Rule, write: true, why: "keeps the protected name below it from being made"})
			return nil
		}
	}
	return nil
}

// protect covers a name. It asks for a placeholder in any case: what is there now may be the
// placeholder of another session, which ends before this one.
func (td *treeDraft) protect(name string, e policy.Entry) {
	td.want(placeholder{path: name, isDir: true})
	td.cover(cover{path: name, role: roleProtect, rule: e.Rule, why: "is protected"})
}

// match is a name that an entry of a path set matches.
type match struct {
	policy.Entry
	path string
}

// findExact finds every name that set matches: all of them, or an error at the entry that has too many.
func (t *Tree) findExact(ctx context.Context, set *policy.PathSet) ([]match, error) {
	entries := set.Entries()
	if len(entries) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, policy.OwnWalkMs*time.Millisecond)
	defer cancel()
	var out []match
	count := map[string]int{}
	err := walk(ctx, t.dir, 0, func(e entry) (bool, error) {
		if m, ok := set.MatchSelf(e.path); ok && t.applies(m, e) {
			if count[m.Rule]++; count[m.Rule] > policy.OwnMatchMax {
				return false, violation(m.Rule, "matches more than 256 names in this workspace", nil)
			}
			out = append(out, match{m, e.path})
			return false, nil
		}
		return set.CouldMatchBelow(e.path), nil
	})
	if errors.Is(err, errCut) {
		return nil, violation(entries[0].Rule, "could not be matched against this workspace within 5 s", context.Cause(ctx))
	}
	return out, err
}

// applies looks into a file where the entry depends on what it holds. One that
// cannot be read is taken to hold it.
func (t *Tree) applies(m policy.Entry, e entry) bool {
	if !m.Content {
		return true
	}
	if e.typ.IsDir() {
		return false
	}
	data, err := readBounded(e.dir, e.name, policy.TokenFileMax)
	return err != nil || policy.HoldsToken(e.name, data)
}

// hidePartial is the condition of a walk for hidden names that was cut short.
func hidePartial(reason, message string) contract.Condition {
	return contract.Condition{Type: "HidePartial", Status: true, Reason: reason, Message: message, Since: time.Now()}
}
