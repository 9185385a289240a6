package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/internal/lazyregexp"
)

// publication copies a git directory that a session made, leaving out whatever
// is not known to be data.
type publication struct {
	ctx      context.Context //nolint:containedctx // lives for one copy
	uid, gid int
	files    int
	bytes    int64
	held     []contract.HeldBack
}

// Bounds of a repository that is published.
const (
	maxPublishFiles = 500_000
	maxPublishBytes = 16 << 30
	maxPublishDepth = 32
	maxHeldBack     = 256
)

var errLarge = errors.New("too large to publish")

// Everything in a git directory that is only data. hooks, modules, worktrees, commondir,
// config.worktree, info/attributes, info/grafts, objects/info/alternates,
// remotes, branches and the todo list of an unfinished rebase (it may run commands) are not here.
var (
	dataDirs  = lazyregexp.New(`^(objects|objects/([0-9a-f]{2}|pack|info|info/commit-graphs)|refs(/.+)?|logs(/.+)?|info|reftable|lfs|lfs/objects(/.+)?)$`)
	dataFiles = lazyregexp.New(`^(HEAD|[A-Z][A-Z_]*_HEAD|MERGE_(MSG|MODE|RR)|SQUASH_MSG|COMMIT_EDITMSG|description|index|sharedindex\.[0-9a-f]+|packed-refs|shallow` +
		`|objects/[0-9a-f]{2}/[0-9a-f]+|objects/pack/(pack-[0-9a-f]+\.(pack|idx|rev|bitmap|keep|mtimes|promisor)|multi-pack-index(-[0-9a-f]+\.(rev|bitmap))?)` +
		`|objects/info/(packs|commit-graph)|objects/info/commit-graphs/(commit-graph-chain|graph-[0-9a-f]+\.graph)` +
		`|refs/.+|logs/.+|info/(exclude|refs|sparse-checkout)|reftable/.+|lfs/objects/.+)$`)
	// What every new repository has and nobody misses.
	samples = lazyregexp.New(`^(hooks|branches)$`)
	// A lock or a temporary file of a git that was killed.
	litter = lazyregexp.New(`(\.lock|/tmp_[^/]*|^gc\.(log|pid))$`)
)

// copyInto copies src as name in root.
func (c *publication) copyInto(src, root *os.File, name string) error {
	if err := unix.Mkdirat(int(root.Fd()), name, 0o755); err != nil {
		return err
	}
	dst, err := openAt(root, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dst.Close()
	if err := c.own(dst); err != nil {
		return err
	}
	return c.dir(src, dst, "", 0)
}

func (c *publication) own(f *os.File) error {
	if os.Geteuid() == c.uid && os.Getegid() == c.gid {
		return nil
	}
	return f.Chown(c.uid, c.gid)
}

func (c *publication) hold(rel, reason string) {
	if len(c.held) < maxHeldBack {
		c.held = append(c.held, contract.HeldBack{Path: path.Join(".git", strings.ToValidUTF8(rel, "\uFFFD")), Reason: reason})
	}
}

func (c *publication) dir(src, dst *os.File, rel string, depth int) error {
	list, err := openAt(src, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		names, err := list.ReadDir(256)
		for _, n := range names {
			if c.ctx.Err() != nil {
				return context.Cause(c.ctx)
			}
			if c.files++; c.files > maxPublishFiles || depth > maxPublishDepth {
				return errLarge
			}
			if err := c.entry(src, dst, n.Name(), path.Join(rel, n.Name()), n.Type(), depth); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *publication) entry(src, dst *os.File, name, rel string, typ fs.FileMode, depth int) error {
	switch {
	case strings.ContainsFunc(rel, func(r rune) bool { return r < ' ' || r == 0x7f }):
		c.hold("(unprintable name)", "its name is not one that git writes")
	case rel == "config" && typ.IsRegular():
		return c.config(src, dst)
	case typ.IsDir() && dataDirs.MatchString(rel):
		return c.subdir(src, dst, name, rel, depth)
	case typ.IsRegular() && litter.MatchString(rel):
	case typ.IsRegular() && dataFiles.MatchString(rel):
		return c.file(src, dst, name)
	case typ.IsDir() && samples.MatchString(rel):
		c.holdHooks(src, name, rel)
	default:
		c.hold(rel, "it is not plain data of a git repository")
	}
	return nil
}

// holdHooks reports the hooks that are more than git's own samples.
func (c *publication) holdHooks(src *os.File, name, rel string) {
	dir, err := openAt(src, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(maxHeldBack)
	for _, n := range names {
		if !strings.HasSuffix(n, ".sample") {
			c.hold(path.Join(rel, n), "the host's git would execute or follow it")
		}
	}
}

func (c *publication) subdir(src, dst *os.File, name, rel string, depth int) error {
	from, err := openAt(src, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := unix.Mkdirat(int(dst.Fd()), name, 0o755); err != nil {
		return err
	}
	to, err := openAt(dst, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := c.own(to); err != nil {
		return err
	}
	return c.dir(from, to, rel, depth+1)
}

// file copies the bytes into a new file, so that neither mode bits, links nor
// extended attributes come along.
func (c *publication) file(src, dst *os.File, name string) error {
	from, err := openAt(src, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer from.Close()
	if st, err := fstat(from); err != nil || !isRegular(st) {
		return fs.ErrInvalid
	}
	to, err := c.create(dst, name)
	if err != nil {
		return err
	}
	defer to.Close()
	n, err := io.Copy(to, io.LimitReader(from, maxPublishBytes-c.bytes+1))
	if c.bytes += n; c.bytes > maxPublishBytes {
		return errLarge
	}
	return err
}

func (c *publication) create(dst *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dst.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if err := c.own(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (c *publication) config(src, dst *os.File) error {
	data, err := readBounded(src, "config", maxConfigBytes)
	if err != nil {
		return err
	}
	clean, reasons := cleanConfig(data)
	for _, r := range reasons {
		c.hold("config", r)
	}
	f, err := c.create(dst, "config")
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(clean)
	return err
}
