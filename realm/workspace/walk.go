package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// entry is one name that a walk found.
type entry struct {
	dir  *os.File // the open directory that holds it
	name string
	path string // below the root
	typ  fs.FileMode
}

// errCut says that a walk did not see everything.
var errCut = errors.New("the walk was cut short")

// walk visits everything below root, a directory before what it holds, and goes into the
// directories for which visit returns true. It holds one descriptor per level,
// follows no link, goes depth levels deep (0: all), and passes by what it may
// not read or what is gone by now. It ends with errCut when ctx does.
func walk(ctx context.Context, root *os.File, depth int, visit func(entry) (bool, error)) error {
	dir, err := openDir(root, "")
	if err != nil {
		return ioError(err, "the workspace could not be read")
	}
	defer dir.Close()
	return walkDir(ctx, dir, "", depth, visit)
}

func walkDir(ctx context.Context, dir *os.File, rel string, depth int, visit func(entry) (bool, error)) error {
	for {
		names, err := dir.ReadDir(256)
		for _, n := range names {
			if ctx.Err() != nil {
				return errCut
			}
			e := entry{dir: dir, name: n.Name(), path: path.Join(rel, n.Name()), typ: n.Type()}
			into, err := visit(e)
			if err != nil {
				return err
			}
			if !into || !e.typ.IsDir() || depth == 1 {
				continue
			}
			if err := walkInto(ctx, e, depth-1, visit); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT): // ENOENT: it was removed meanwhile
			return nil
		case err != nil:
			return ioError(err, "a directory could not be read")
		}
	}
}

func walkInto(ctx context.Context, e entry, depth int, visit func(entry) (bool, error)) error {
	sub, err := openAt(e.dir, e.name, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case err == nil:
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return ioError(err, "the workspace could not be read")
	default:
		// Gone, changed its type, or not this user's to read.
		return nil
	}
	defer sub.Close()
	return walkDir(ctx, sub, e.path, depth, visit)
}
