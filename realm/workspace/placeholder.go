package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// placeholder is a name that must exist so that something can be mounted on it.
// An empty directory is the default also where a file would stand (.envrc): git
// neither shows nor commits it, and a host-side checkout replaces it.
type placeholder struct {
	path    string
	isDir   bool
	content string
}

// acquire makes the placeholders that are missing, parents first, and counts
// session as a user of all that are ours. The intents are on disk before
// anything is made. It returns which of the names are placeholders now; the others exist by themselves.
func (l *ledger) acquire(root *os.File, session string, want []placeholder, owner [2]int) (ours map[string]bool, err error) {
	if len(want) == 0 {
		return nil, nil
	}
	if st, err := fstat(root); err != nil {
		return nil, err
	} else if id := idOf(st); id != l.Dir {
		l.Dir, l.Items = id, nil // another tree of the same name: what it listed is gone
	}
	for _, w := range want {
		it := l.find(w.path)
		if it != nil && !it.isOurs(root) {
			l.drop(w.path)
			it = nil
		}
		if it == nil && !exists(root, w.path) {
			l.Items = append(l.Items, ledged{Path: w.path, IsDir: w.isDir, Content: w.content, Since: time.Now()})
			it = &l.Items[len(l.Items)-1]
		}
		if it != nil && !slices.Contains(it.Sessions, session) {
			it.Sessions = append(it.Sessions, session)
		}
	}
	if err := l.save(); err != nil {
		return nil, err
	}
	for i := range l.Items {
		if err := l.Items[i].make(root, owner); err != nil {
			return nil, err
		}
	}
	// A name that somebody else made meanwhile is not ours.
	l.Items = slices.DeleteFunc(l.Items, func(it ledged) bool { return it.ID == fileID{} })
	ours = map[string]bool{}
	for _, w := range want {
		ours[w.path] = l.find(w.path) != nil
	}
	return ours, l.save()
}

// release takes session off every placeholder and removes those that nobody
// needs any more and that are still as they were made.
func (l *ledger) release(root *os.File, gone func(session string) bool) error {
	var errs []error
	// Children were added after their parents.
	for i := len(l.Items) - 1; i >= 0; i-- {
		it := &l.Items[i]
		it.Sessions = slices.DeleteFunc(it.Sessions, gone)
		if len(it.Sessions) > 0 {
			continue
		}
		if err := it.remove(root); err != nil {
			errs = append(errs, err)
			continue // the next gc tries again
		}
		l.Items = slices.Delete(l.Items, i, i+1)
	}
	return errors.Join(append(errs, l.save())...)
}

// make creates the placeholder, unless it is there. Exclusive creation: what is already at the name is never touched.
func (it *ledged) make(root *os.File, owner [2]int) error {
	if (it.ID != fileID{}) {
		return nil
	}
	dir, base, err := openParent(root, it.Path)
	if err != nil {
		return ioError(err, "a placeholder could not be made")
	}
	defer dir.Close()
	if it.IsDir {
		err = unix.Mkdirat(int(dir.Fd()), base, 0o755)
	} else {
		err = writeNew(dir, base, it.Content)
	}
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return ioError(err, "a placeholder could not be made")
	}
	f, err := openAt(dir, base, unix.O_PATH)
	if err != nil {
		return ioError(err, "a placeholder could not be opened")
	}
	defer f.Close()
	st, err := fstat(f)
	if err != nil {
		return err
	}
	it.ID = idOf(st)
	if int(st.Uid) == owner[0] && int(st.Gid) == owner[1] {
		return nil
	}
	if err := unix.Fchownat(int(f.Fd()), "", owner[0], owner[1], unix.AT_EMPTY_PATH); err != nil {
		return ioError(err, "a placeholder could not be given to the workspace's owner")
	}
	return nil
}

// isOurs reports whether the name still leads to what realm made, unchanged. Without a recorded inode (a
// crash between the intent and the record) an untouched one that is not older than the intent counts as ours.
func (it *ledged) isOurs(root *os.File) bool {
	dir, base, err := openParent(root, it.Path)
	if err != nil {
		return false
	}
	defer dir.Close()
	return it.matches(dir, base)
}

func (it *ledged) matches(dir *os.File, base string) bool {
	flags := unix.O_RDONLY | unix.O_NONBLOCK
	f, err := openAt(dir, base, flags)
	if err != nil {
		return false
	}
	defer f.Close()
	st, err := fstat(f)
	if err != nil || it.IsDir != (st.Mode&unix.S_IFMT == unix.S_IFDIR) || !it.IsDir && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	if it.ID != (fileID{}) {
		if it.ID != idOf(st) {
			return false
		}
	} else if time.Unix(st.Ctim.Unix()).Before(it.Since.Add(-time.Second)) {
		return false
	}
	if it.IsDir {
		return true // rmdir refuses one that is not empty
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(len(it.Content))+1))
	return err == nil && string(data) == it.Content
}

// remove removes the placeholder when it is still ours. A file is moved aside first and looked at
// there: between a look and an unlink somebody may have replaced it.
func (it *ledged) remove(root *os.File) error {
	dir, base, err := openParent(root, it.Path)
	if err != nil {
		return nil // its parent is gone or no directory any more: so is it
	}
	defer dir.Close()
	fd := int(dir.Fd())
	if it.IsDir {
		if !it.matches(dir, base) {
			return nil
		}
		return ignore(unix.Unlinkat(fd, base, unix.AT_REMOVEDIR), unix.ENOENT, unix.ENOTEMPTY, unix.ENOTDIR, unix.EEXIST)
	}
	aside := it.aside(base)
	if it.matches(dir, base) {
		err := unix.Renameat2(fd, base, fd, aside, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EINVAL) { // a file system that cannot: the look must do
			return ignore(unix.Unlinkat(fd, base, 0), unix.ENOENT)
		}
		if err != nil {
			return ignore(err, unix.ENOENT)
		}
	}
	if it.matches(dir, aside) {
		return ignore(unix.Unlinkat(fd, aside, 0), unix.ENOENT)
	}
	return ignore(unix.Renameat2(fd, aside, fd, base, unix.RENAME_NOREPLACE), unix.ENOENT, unix.EEXIST)
}

// aside is where a file is looked at before it is removed; gc finds it there after a kill.
func (it *ledged) aside(base string) string {
	return fmt.Sprintf("%s.realm-%x", base, it.Since.UnixNano())
}

func ignore(err error, harmless ...unix.Errno) error {
	for _, e := range harmless {
		if errors.Is(err, e) {
			return nil
		}
	}
	if err != nil {
		return ioError(err, "a placeholder could not be removed")
	}
	return nil
}

// Sweep gives back what sessions that are not live any more left in their
// workspaces: placeholders, and quarantines that hold nothing. It is what gc
// runs after a realm was killed.
func Sweep(stateDir string, live func(session string) bool) error {
	names, err := os.ReadDir(path.Join(stateDir, "workspaces"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return ioError(err, "the lists of placeholders could not be read")
	}
	gone := func(session string) bool { return !live(session) }
	var errs []error
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".json") {
			errs = append(errs, sweepOne(stateDir, path.Join(stateDir, "workspaces", n.Name()), gone))
		}
	}
	return errors.Join(append(errs, sweepQuarantines(stateDir, live))...)
}

func sweepOne(stateDir, file string, gone func(string) bool) error {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil // released meanwhile
	}
	if err != nil {
		return ioError(err, "a list of placeholders could not be read")
	}
	var l ledger
	if json.Unmarshal(data, &l) != nil || ledgerPath(stateDir, l.Root) != file {
		return os.Remove(file) // it names nothing that could be removed safely
	}
	return releasePlaceholders(context.Background(), stateDir, l.Root, gone)
}

// releasePlaceholders opens the tree by its name and the ledger's identity of it.
func releasePlaceholders(ctx context.Context, stateDir, root string, gone func(string) bool) error {
	l, err := openLedger(ctx, stateDir, root)
	if err != nil {
		return err
	}
	defer l.close()
	if len(l.Items) == 0 {
		return l.save()
	}
	dir, err := os.OpenFile(root, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			l.Items = nil // the tree is gone
			return l.save()
		}
		return ioError(err, "a workspace could not be opened")
	}
	defer dir.Close()
	st, err := fstat(dir)
	if err != nil {
		return err
	}
	if idOf(st) != l.Dir {
		l.Items = nil
		return l.save()
	}
	return l.release(dir, gone)
}
