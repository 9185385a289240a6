package workspace

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// linked is a file with more than one name, all of which must be covered.
type linked struct {
	role, rule string
	names      uint64 // that it has
	seen       uint64 // that are known
	outside    bool   // one of them is not in the tree
}

// seekLinks notes the file at an absolute name when it has another name.
func (d *draft) seekLinks(t *Tree, name, rule string) {
	var st unix.Stat_t
	if unix.Lstat(name, &st) != nil {
		return
	}
	_, inside := below(t.root, name)
	d.seek(&st, roleGit, rule, !inside)
}

// seek notes a file whose other names are to be found. known says that the name
// at hand is not one that the search will come by.
func (d *draft) seek(st *unix.Stat_t, role, rule string, known bool) {
	if !isRegular(st) || st.Nlink < 2 {
		return
	}
	if d.linked == nil {
		d.linked = map[fileID]linked{}
	}
	l, ok := d.linked[idOf(st)]
	if !ok || role == roleHide && l.role != roleHide {
		l = linked{role: role, rule: rule, names: uint64(st.Nlink), seen: l.seen, outside: l.outside} //nolint:unconvert // 32 bits wide on some architectures
	}
	if known && !l.outside {
		l.seen, l.outside = l.seen+1, true
	}
	d.linked[idOf(st)] = l
}

// planHardLinks covers the other names of hidden and read-only files. A name
// that lies outside of the tree is not in the session.
func (t *Tree) planHardLinks(ctx context.Context, _ string, d *draft) error {
	td := d.tree(t.root)
	for _, c := range td.covers {
		if c.write || c.role != roleHide && !t.writable() {
			continue
		}
		if st, err := lstatRel(t.dir, c.path); err == nil {
			d.seek(st, c.role, c.rule, false)
		}
	}
	if len(d.linked) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, policy.OwnWalkMs*time.Millisecond)
	defer cancel()
	err := walk(ctx, t.dir, 0, func(e entry) (bool, error) {
		if !e.typ.IsRegular() {
			return true, nil
		}
		if st, err := lstatAt(e.dir, e.name); err == nil && st.Nlink > 1 {
			t.coverLink(d, td, e.path, st)
		}
		return false, nil
	})
	if err != nil && !errors.Is(err, errCut) {
		return err
	}
	return d.nameLinks(errors.Is(err, errCut))
}

func (t *Tree) coverLink(d *draft, td *treeDraft, rel string, st *unix.Stat_t) {
	l, ok := d.linked[idOf(st)]
	if !ok {
		return
	}
	l.seen++
	d.linked[idOf(st)] = l
	if l.role == roleHide || t.writable() && !td.covered(rel) {
		td.cover(cover{path: rel, role: l.role, rule: l.rule, why: "is another name (hard link) of what the rule names"})
	}
}

// nameLinks tells of the names that were not found. When the search was cut
// short, what host git executes may be one that the session can write.
func (d *draft) nameLinks(cut bool) error {
	for _, id := range sortedIDs(d.linked) {
		l := d.linked[id]
		if l.seen >= l.names {
			continue
		}
		if cut && l.role == roleGit {
			return contract.Errorf(contract.PathRefused, "%s: a file that host git executes or follows has another name (hard link) that was not found", l.rule).
				WithHint("copy the file so that it has one name")
		}
		d.degraded = append(d.degraded, l.rule+": the file has another name (hard link) that was not found in the workspace")
	}
	return nil
}

func sortedIDs(m map[fileID]linked) []fileID {
	return slices.SortedFunc(maps.Keys(m), func(a, b fileID) int {
		return cmp.Or(cmp.Compare(m[a].rule, m[b].rule), cmp.Compare(a.Dev, b.Dev), cmp.Compare(a.Ino, b.Ino))
	})
}
