package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// Options say for whom a tree is opened.
type Options struct {
	StateDir   string // realm's state directory; everything that a plan makes outside the tree is below it
	RuntimeDir string
	Home       string   // the caller's $HOME; "" when unknown
	HomeInside string   // where a named home is mounted; "" is DefaultHome
	Forbidden  []string // more places to stay clear of: the engine's GraphRoot and RunRoot
	Policy     *policy.Compiled
}

// DefaultHome is $HOME inside a session.
const DefaultHome = "/home/agent"

// Tree is one opened workspace. It is safe for concurrent use.
type Tree struct {
	root     string
	dir      *os.File
	beneath  *os.Root // of dir
	id       fileID
	uid, gid int
	opts     Options
	pol      contract.Policy
	host     policy.Host

	mu       sync.RWMutex
	guarded  map[fileID]Guarded // of the plan in force
	followed []Guarded          // those of them that have a Path
}

// Open resolves dir once and keeps its descriptor. What contract.md refuses as a workspace is
// SCHEMA_INVALID: what the name says, what it resolves to, and, against bind mounts, what
// directories it really lies in.
func Open(dir string, o Options) (*Tree, error) {
	if o.Policy == nil || !filepath.IsAbs(o.StateDir) {
		return nil, contract.Errorf(contract.Internal, "a workspace needs a policy and a state directory")
	}
	host := policy.Host{Home: resolved(o.Home), Forbidden: forbidden(o)}
	clean, err := policy.Workspace(dir, host)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(clean)
	if err != nil {
		return nil, refuseWorkspace(err, "cannot be resolved")
	}
	if real, err = policy.Workspace(real, host); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(real, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, refuseWorkspace(err, "cannot be opened")
	}
	t := &Tree{root: real, dir: f, opts: o, host: host, pol: o.Policy.Policy()}
	if t.opts.HomeInside == "" {
		t.opts.HomeInside = DefaultHome
	}
	if err := t.identify(); err != nil {
		f.Close()
		return nil, err
	}
	if t.beneath, err = os.OpenRoot(procPath(f)); err != nil {
		f.Close()
		return nil, refuseWorkspace(err, "cannot be opened")
	}
	return t, nil
}

// identify looks at what was opened, not at its name.
func (t *Tree) identify() error {
	if name, err := realName(t.dir); err != nil || name != t.root {
		return refuseWorkspace(err, "changed while it was opened")
	}
	st, err := fstat(t.dir)
	if err != nil {
		return err
	}
	t.id, t.uid, t.gid = idOf(st), int(st.Uid), int(st.Gid)
	return t.aliases()
}

// aliases refuses a bind mount or another name of a place that is refused: it
// climbs from the opened directory and compares inodes.
func (t *Tree) aliases() error {
	never := map[fileID]bool{}
	for _, p := range append([]string{"/etc", "/usr", "/var", "/home", "/root"}, t.host.Home) {
		addID(never, p)
	}
	if never[t.id] {
		return refuseWorkspace(nil, "is another name of a system or home directory")
	}
	inside := map[fileID]bool{}
	for _, p := range append([]string{"/proc", "/sys", "/dev", "/run"}, t.host.Forbidden...) {
		addID(inside, p)
	}
	return climb(t.dir, func(id fileID) error {
		if inside[id] {
			return refuseWorkspace(nil, "lies in a directory of realm, of Podman or of the kernel")
		}
		return nil
	})
}

func addID(set map[fileID]bool, p string) {
	var st unix.Stat_t
	if p != "" && unix.Stat(p, &st) == nil {
		set[idOf(&st)] = true
	}
}

// maxClimb bounds how deep a directory may lie; PATH_MAX allows no more.
const maxClimb = 2048

// climb calls visit for dir and every directory above it.
func climb(dir *os.File, visit func(fileID) error) error {
	return climbOpen(dir, func(id fileID, _ *os.File) (bool, error) { return true, visit(id) })
}

// climbOpen is climb for a visit that needs the descriptor and may say stop.
func climbOpen(dir *os.File, visit func(fileID, *os.File) (bool, error)) error {
	cur, err := openAt(dir, ".", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return ioError(err, "a directory could not be opened")
	}
	defer func() { cur.Close() }()
	last := fileID{}
	for range maxClimb {
		st, err := fstat(cur)
		if err != nil {
			return err
		}
		if idOf(st) == last { // the root is its own parent
			return nil
		}
		last = idOf(st)
		if up, err := visit(last, cur); err != nil || !up {
			return err
		}
		up, err := openAt(cur, "..", unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return ioError(err, "a directory could not be opened")
		}
		cur.Close()
		cur = up
	}
	return contract.Errorf(contract.PathRefused, "a directory lies too deep")
}

// forbidden are the places of realm and of Podman, as named and as resolved.
func forbidden(o Options) []string {
	places := append([]string{o.StateDir, o.RuntimeDir, "/var/lib/containers", "/run/containers"}, o.Forbidden...)
	if o.Home != "" {
		places = append(places, filepath.Join(o.Home, ".local/share/containers"))
	}
	var out []string
	for _, p := range places {
		if !filepath.IsAbs(p) {
			continue
		}
		out = append(out, filepath.Clean(p))
		if r := resolved(p); r != filepath.Clean(p) {
			out = append(out, r)
		}
	}
	return out
}

func resolved(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	if p == "" {
		return ""
	}
	return filepath.Clean(p)
}

func refuseWorkspace(err error, what string) *contract.Error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		what = "does not exist"
	case errors.Is(err, unix.ENOTDIR):
		what = "is not a directory"
	case errors.Is(err, fs.ErrPermission):
		what = "may not be opened by this user"
	case errors.Is(err, unix.ELOOP):
		what = "has too many symbolic links"
	}
	return contract.Errorf(contract.SchemaInvalid, "the workspace %s", what).WithCause(err)
}

// Root is the resolved absolute name of the tree.
func (t *Tree) Root() string { return t.root }

// Owner is who owns the tree on the host.
func (t *Tree) Owner() (uid, gid uint32) { return uint32(t.uid), uint32(t.gid) }

// FD is the tree's descriptor, for what the engine has to find out about its
// file system. It stays the Tree's.
func (t *Tree) FD() *os.File { return t.dir }

// Close gives the descriptors back.
func (t *Tree) Close() error { return errors.Join(t.beneath.Close(), t.dir.Close()) }
