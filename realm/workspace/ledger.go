package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// ledger is the list of placeholders that realm made in one tree, on disk, so
// that a killed realm leaves nothing that gc cannot undo. It is read and
// written under a lock that every realm process of the user takes. A machine
// that loses power may lose the last change; what stays then is an empty
// directory, so the file is replaced atomically but not synced.
type ledger struct {
	Root  string   `json:"root"`
	Dir   fileID   `json:"dir"` // the tree that Root named when this was written
	Items []ledged `json:"items"`

	path string
	lock *os.File
}

// ledged is one placeholder. Its ID is zero between the intent and the creation.
type ledged struct {
	Path     string    `json:"path"` // below the root
	IsDir    bool      `json:"isDir"`
	Content  string    `json:"content,omitempty"` // of a file
	ID       fileID    `json:"id"`
	Since    time.Time `json:"since"`
	Sessions []string  `json:"sessions"`
}

// fileID names an inode for as long as it lives.
type fileID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

func idOf(st *unix.Stat_t) fileID { return fileID{Dev: uint64(st.Dev), Ino: st.Ino} } //nolint:unconvert // Dev is 32 bits wide on some architectures

// lockWait bounds the wait for another realm process that works on the same tree.
const lockWait = 10 * time.Second

func ledgerPath(stateDir, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(stateDir, "workspaces", hex.EncodeToString(sum[:12])+".json")
}

// openLedger locks and reads the ledger of root. Close it.
func openLedger(ctx context.Context, stateDir, root string) (*ledger, error) {
	path := ledgerPath(stateDir, root)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, ioError(err, "the list of placeholders could not be made")
	}
	lock, err := lockFile(ctx, path[:len(path)-len(".json")]+".lock")
	if err != nil {
		return nil, err
	}
	l := &ledger{path: path, lock: lock}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.close()
		return nil, ioError(err, "the list of placeholders could not be read")
	}
	// A list that does not parse names nothing that could be removed safely.
	if err != nil || json.Unmarshal(data, l) != nil || l.Root != root {
		l.Root, l.Dir, l.Items = root, fileID{}, nil
	}
	return l, nil
}

func lockFile(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, ioError(err, "the list of placeholders could not be locked")
	}
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, ioError(err, "the list of placeholders could not be locked")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, contract.Errorf(contract.Internal, "another realm process holds the list of placeholders").WithCause(context.Cause(ctx))
		}
	}
}

// close gives the lock back. The lock file stays: removing it would let two
// processes hold two locks of one name.
func (l *ledger) close() { _ = l.lock.Close() }

// save replaces the file, or removes it when nothing is left to remember.
func (l *ledger) save() error {
	if len(l.Items) == 0 {
		if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError(err, "the list of placeholders could not be removed")
		}
		return nil
	}
	data, err := json.Marshal(l)
	if err != nil {
		return ioError(err, "the list of placeholders could not be written")
	}
	tmp := l.path + ".new" // one writer at a time: the lock is held
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return ioError(err, "the list of placeholders could not be written")
	}
	if err := os.Rename(tmp, l.path); err != nil {
		return ioError(err, "the list of placeholders could not be written")
	}
	return nil
}

func (l *ledger) find(path string) *ledged {
	for i := range l.Items {
		if l.Items[i].Path == path {
			return &l.Items[i]
		}
	}
	return nil
}

func (l *ledger) drop(path string) {
	l.Items = slices.DeleteFunc(l.Items, func(it ledged) bool { return it.Path == path })
}

// ioError gives a failed system call its code.
func ioError(err error, what string) *contract.Error {
	code := contract.Internal
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		code = contract.LimitExceeded
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		code = contract.PathRefused
	}
	return contract.Errorf(code, "%s: %s", what, errnoText(err)).WithCause(err)
}

// errnoText is the system's own phrase, without the path that os adds.
func errnoText(err error) string {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno.Error()
	}
	return "unexpected error"
}
