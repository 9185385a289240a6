package workspace

import (
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// admit opens what was located and applies the rules to it: to both names with
// what is known of the content, and to the identity of the file and of every directory above it.
func (t *Tree) admit(op policy.Op, given string, r *Resolved) error {
	if err := t.openFound(op, r); err != nil {
		return err
	}
	r.State = fileState(given, r)
	for _, name := range []string{given, r.Name} {
		if err := verdict(t.opts.Policy.PathRule(name, op, r.State)); err != nil {
			return err
		}
	}
	if err := t.checkGuarded(op, r); err != nil {
		return err
	}
	if !r.Exists && op != policy.OpWrite {
		return unix.ENOENT
	}
	return t.unmoved(r)
}

// openFound opens what is there without blocking and checks its type on the descriptor.
func (t *Tree) openFound(op policy.Op, r *Resolved) error {
	if !r.Exists {
		return nil
	}
	wantDir := op == policy.OpList || op == policy.OpExec
	switch {
	case wantDir && !isDir(&r.Stat):
		return refuse(ruleNotDir, "a file is where a directory is needed")
	case !wantDir && !isRegular(&r.Stat):
		return refuse(ruleNotRegular, "a directory or special file is where a file is needed")
	}
	f, err := openAt(r.Dir, r.Base, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY)
	switch {
	case err == nil:
	case err == unix.EACCES && op == policy.OpWrite:
		return nil // replaced as a whole: nobody has to read it
	case err == unix.ENOENT, err == unix.ELOOP, err == unix.ENXIO:
		return errRaced
	default:
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Mode&unix.S_IFMT != r.Stat.Mode&unix.S_IFMT {
		f.Close()
		return errRaced
	}
	r.File, r.Stat = f, st
	return nil
}

// fileState looks into a file that is hidden only when it holds a token. Its
// content is read at an offset, so that the descriptor is at the start for the caller.
func fileState(given string, r *Resolved) policy.FileState {
	if !r.Exists {
		return policy.FileAbsent
	}
	named := ""
	for _, n := range []string{given, r.Name} {
		if policy.TokenFile(n) {
			named = n
		}
	}
	if named == "" || isDir(&r.Stat) {
		return policy.FilePlain
	}
	if r.File == nil {
		return policy.FileUnknown
	}
	data, err := io.ReadAll(io.NewSectionReader(r.File, 0, policy.TokenFileMax+1))
	if err != nil {
		return policy.FileUnknown
	}
	if policy.HoldsToken(path.Base(named), data) {
		return policy.FileToken
	}
	return policy.FilePlain
}

// checkGuarded compares identities: a hidden or protected file stays so when
// it, or a directory above it, got another name.
func (t *Tree) checkGuarded(op policy.Op, r *Resolved) error {
	if g, ok := t.guardedName(r.Name); ok && op == policy.OpWrite {
		return contract.Errorf(contract.PathRefused, "host git executes or follows the file (%s)", g.Rule)
	}
	check := func(id fileID, at *os.File) error {
		t.mu.RLock()
		g, ok := t.guarded[id]
		t.mu.RUnlock()
		if !ok || !g.Hidden && op != policy.OpWrite || g.Birth != 0 && g.Birth != birth(at, "") {
			return nil
		}
		return contract.Errorf(contract.PathRefused, "the file is hidden or protected under another name (%s)", g.Rule)
	}
	if r.File != nil {
		if err := check(idOf(&r.Stat), r.File); err != nil {
			return err
		}
	}
	found := false
	err := climbOpen(r.Dir, func(id fileID, dir *os.File) (bool, error) {
		if id == t.id {
			found = true
			return false, nil
		}
		return true, check(id, dir)
	})
	if err == nil && !found {
		return refuse(ruleEscapes, "the path leaves the workspace")
	}
	return err
}

// unmoved makes sure that the names which the rules saw are still the names of what is open.
func (t *Tree) unmoved(r *Resolved) error {
	f, want := r.File, r.Name
	if f == nil {
		f, want = r.Dir, path.Dir(r.Name)
		for range r.Missing {
			want = path.Dir(want)
		}
		if r.Base == "." {
			want = r.Name
		}
	}
	name, err := t.nameOf(f)
	if err != nil {
		return err
	}
	if name != want {
		return errRaced
	}
	return nil
}

// guardedName returns what name lies in of that which git's own files name.
func (t *Tree) guardedName(name string) (Guarded, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, g := range t.followed {
		if contains(g.Path, name) {
			return g, true
		}
	}
	return Guarded{}, false
}

// guard puts a plan's identities in force.
func (t *Tree) guard(list []Guarded) {
	m := make(map[fileID]Guarded, len(list))
	var followed []Guarded
	for _, g := range list {
		if g.Path != "" {
			followed = append(followed, g)
		}
		if old, ok := m[g.ID]; !ok || g.Hidden || !old.Hidden {
			m[g.ID] = g
		}
	}
	t.mu.Lock()
	t.guarded, t.followed = m, followed
	t.mu.Unlock()
}

// Adopt puts a stored plan in force, after a restart of realm.
func (t *Tree) Adopt(p *Plan) { t.guard(p.Guarded) }

// birth is when an inode was made, 0 where the file system does not tell. An
// inode number is used again soon after a file is gone; the pair is not.
func birth(at *os.File, name string) int64 {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	if unix.Statx(int(at.Fd()), name, flags, unix.STATX_BTIME, &st) != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
