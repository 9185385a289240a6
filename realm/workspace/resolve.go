package workspace

import (
	"errors"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// Resolved is where a path leads, as descriptors: what is done with them
// happens there, however the tree changes meanwhile. Close it.
type Resolved struct {
	// Name is the real name below the root; "." is the root itself.
	Name string
	// Dir is the directory that holds the name and Base the name in it. For a write below
	// directories that do not exist, Dir is the deepest that does and Missing are
	// the names between: the caller makes them in Dir and resolves again.
	Dir     *os.File
	Base    string
	Missing []string
	// File is what is there, opened for reading: a regular file for a read or
	// a write, a directory for a list or an exec. Nil when nothing is there, or
	// when a file to be written is not readable.
	File *os.File
	// Exists says that something is there; Stat is what.
	Exists bool
	Stat   unix.Stat_t
	// State is what policy.Decide wants to know of it.
	State policy.FileState
}

// Close gives the descriptors back.
func (r *Resolved) Close() error {
	if r.File != nil {
		_ = r.File.Close()
	}
	if r.Dir != nil {
		return r.Dir.Close()
	}
	return nil
}

const (
	// maxLinks is how many links in the last place are followed, as by the kernel.
	maxLinks = 40
	// maxRaces is how often a tree that changes during the resolution is tried again.
	maxRaces = 16
)

// errRaced says that the tree changed between two steps.
var errRaced = errors.New("the tree changed")

// The rules that are not the policy's.
const (
	ruleEscapes    = "path-escapes-root"
	ruleNotRegular = "not-a-regular-file"
	ruleNotDir     = "not-a-directory"
	ruleTooLong    = "name-too-long"
	ruleLinks      = "too-many-links"
	ruleRace       = "changes-too-fast"
	ruleForbidden  = "not-permitted"
)

func refuse(rule, reason string) error {
	return contract.Errorf(contract.PathRefused, "%s (%s)", reason, rule)
}

// Resolve follows a workspace-relative path beneath the root and applies the
// path rules to the name as given, to the real name, and to the file's identity
// under whatever name. Nothing that blocks is opened. Its errors are
// PATH_REFUSED, with the rule in the detail, and PATH_NOT_FOUND.
func (t *Tree) Resolve(op policy.Op, given string) (*Resolved, error) {
	if strings.ContainsRune(given, 0) {
		return nil, refuse(ruleEscapes, "the path holds a NUL")
	}
	// With the state in which the fewest rules apply: what this refuses is refused whatever is there.
	if err := verdict(t.opts.Policy.PathRule(given, op, policy.FileAbsent)); err != nil {
		return nil, err
	}
	for range maxRaces {
		r, err := t.resolve(op, given)
		if errors.Is(err, errRaced) {
			continue
		}
		if err != nil {
			return nil, pathError(op, err)
		}
		return r, nil
	}
	return nil, refuse(ruleRace, "the path changes faster than it can be resolved")
}

func verdict(v policy.PathVerdict) error {
	if v.Effect == contract.Allow {
		return nil
	}
	return contract.Errorf(v.Code, "%s (%s)", v.Reason, v.Rule)
}

func (t *Tree) resolve(op policy.Op, given string) (*Resolved, error) {
	r, err := t.locate(op, given)
	if err != nil {
		return nil, err
	}
	if err := t.admit(op, given, r); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// locate finds the directory that holds the last name, following links in that
// place too. Links on the way there are os.Root's to follow, beneath the root only.
func (t *Tree) locate(op policy.Op, given string) (*Resolved, error) {
	cur, mustDir := given, false
	for range maxLinks {
		cur, mustDir = trimSlashes(cur, mustDir)
		if base := path.Base(cur); base == "." || base == ".." {
			return t.locateDir(op, cur)
		}
		r, err := t.openHolder(op, cur)
		if err != nil || len(r.Missing) > 0 {
			return r, err
		}
		st, err := lstatAt(r.Dir, r.Base)
		if err == unix.ENOENT && !mustDir {
			return r, nil
		}
		if err == nil && isLink(st) {
			cur, err = followLink(r, path.Dir(r.Name))
			_ = r.Close()
			if err != nil {
				return nil, err
			}
			continue
		}
		if err == nil && mustDir && !isDir(st) {
			err = refuse(ruleNotDir, "a file is where a directory is needed")
		}
		if err != nil {
			_ = r.Close()
			return nil, err
		}
		r.Exists, r.Stat = true, *st
		return r, nil
	}
	return nil, unix.ELOOP
}

// trimSlashes takes trailing slashes and "." off: what is left must be a directory then.
func trimSlashes(name string, mustDir bool) (string, bool) {
	for {
		switch {
		case strings.HasSuffix(name, "/") && len(name) > 1:
			name, mustDir = name[:len(name)-1], true
		case strings.HasSuffix(name, "/."):
			name, mustDir = name[:len(name)-1], true
		case name == "":
			return ".", true
		default:
			return name, mustDir
		}
	}
}

func followLink(r *Resolved, dir string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(r.Dir.Fd()), r.Base, buf)
	if err != nil {
		return "", errRaced
	}
	target := string(buf[:n])
	if path.IsAbs(target) {
		return "", refuse(ruleEscapes, "the path leaves the workspace")
	}
	// Not path.Join: it would take ".." off a name that may be a link.
	return dir + "/" + target, nil
}

// openHolder opens the directory that holds name.
func (t *Tree) openHolder(op policy.Op, name string) (*Resolved, error) {
	parent, base := splitLast(name)
	r := &Resolved{Base: base}
	for {
		dir, err := t.openBeneath(parent)
		if err == nil {
			r.Dir = dir
			break
		}
		// Only what does not exist may be made; a link that dangles is not that.
		if op != policy.OpWrite || !errors.Is(err, unix.ENOENT) || parent == "." || !t.absent(parent) {
			return nil, err
		}
		parent, base = splitLast(parent)
		r.Missing = append([]string{base}, r.Missing...)
	}
	real, err := t.nameOf(r.Dir)
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	r.Name = path.Join(append(append([]string{real}, r.Missing...), r.Base)...)
	return r, nil
}

// splitLast splits like path.Split but leaves ".." alone: what is before it may be a link.
func splitLast(name string) (parent, base string) {
	name = strings.TrimRight(name, "/")
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ".", name
	}
	return name[:i], name[i+1:]
}

// absent reports whether the last name of dir is not there at all.
func (t *Tree) absent(dir string) bool {
	_, err := t.beneath.Lstat(dir)
	return errors.Is(err, unix.ENOENT)
}

func (t *Tree) openBeneath(dir string) (*os.File, error) {
	return t.beneath.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// locateDir resolves a path whose last step is no name: the root, or a link to "..".
func (t *Tree) locateDir(op policy.Op, name string) (*Resolved, error) {
	if op == policy.OpRead || op == policy.OpWrite {
		return nil, refuse(ruleNotRegular, "a directory is where a file is needed")
	}
	dir, err := t.openBeneath(name)
	if err != nil {
		return nil, err
	}
	r := &Resolved{Dir: dir, Base: ".", Exists: true}
	if r.Name, err = t.nameOf(dir); err == nil {
		err = unix.Fstat(int(dir.Fd()), &r.Stat)
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// nameOf is the real name of an open directory below the root, by the kernel's word.
func (t *Tree) nameOf(dir *os.File) (string, error) {
	root, err := realName(t.dir)
	if err != nil {
		return "", err
	}
	name, err := realName(dir)
	if err != nil {
		return "", err
	}
	rel, ok := below(root, name)
	if !ok {
		return "", refuse(ruleEscapes, "the path leaves the workspace")
	}
	return rel, nil
}

// pathError gives an error of the file system its code.
func pathError(op policy.Op, err error) error {
	if _, ok := errors.AsType[*contract.Error](err); ok {
		return err
	}
	switch {
	case errors.Is(err, unix.ENOTDIR) && op == policy.OpWrite:
		return refuse(ruleNotDir, "a file is where a directory is needed")
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return contract.Errorf(contract.PathNotFound, "nothing is at this path")
	case errors.Is(err, unix.ENAMETOOLONG):
		return refuse(ruleTooLong, "the path or a name in it is too long")
	case errors.Is(err, unix.ELOOP):
		return refuse(ruleLinks, "the path has too many symbolic links")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return refuse(ruleForbidden, "the file system does not permit it")
	}
	if _, ok := errors.AsType[unix.Errno](err); !ok && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
		// os.Root has no exported error for a path that leaves it.
		return refuse(ruleEscapes, "the path leaves the workspace")
	}
	return ioError(err, "the path could not be resolved")
}
