package control

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"realm.dev/contract"
	"realm.dev/internal/private"
)

// lockTimeout bounds the wait for another realm process that makes or removes
// a socket in the same directory; that takes well under a millisecond.
const lockTimeout = 5 * time.Second

// directory is an open directory that belongs to us alone.
type directory struct{ *private.Dir }

// openDir opens the directory at path, which it makes when only its last
// element is missing. It refuses one that somebody else can read or change,
// and one below a directory in which somebody else could swap it.
func openDir(path string) (*directory, error) {
	if err := checkAncestors(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, refused("its directory cannot be made", err)
	}
	d, err := private.OpenDir(path)
	if err != nil {
		return nil, err
	}
	return &directory{d}, nil
}

// checkAncestors wants every directory from path up to the root to be ours or
// root's, and closed to changes by others unless sticky: then nobody else can
// rename or replace what is below. A symbolic link on the way is refused, for
// where it leads would need the same proof.
func checkAncestors(path string) error {
	for {
		info, err := os.Lstat(path)
		if err != nil {
			return refused("a directory above it cannot be read", err)
		}
		if !info.IsDir() {
			return refused("a part of its path is a symbolic link or no directory", nil).WithHint("use the path that realpath prints")
		}
		if uid := ownerOf(info); uid != 0 && uid != os.Geteuid() {
			return refused("a directory above it belongs to another user", nil)
		}
		if info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return refused("a directory above it can be changed by other users", nil)
		}
		if path == "/" {
			return nil
		}
		path = filepath.Dir(path)
	}
}

func ownerOf(info fs.FileInfo) int {
	return int(info.Sys().(*syscall.Stat_t).Uid)
}

func refused(what string, cause error) *contract.Error {
	return contract.Errorf(contract.PathRefused, "control socket: %s", what).WithCause(cause)
}

// inProcess keeps the goroutines of this process from polling each other.
var inProcess sync.Mutex

// locked runs f while no other realm process makes or removes a socket in d.
// Without it a socket that is bound and not yet listening looks dead.
func (d *directory) locked(f func() error) error {
	inProcess.Lock()
	defer inProcess.Unlock()
	for deadline := time.Now().Add(lockTimeout); ; time.Sleep(time.Millisecond) {
		err := syscall.Flock(d.Fd(), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return failed("cannot lock its directory", err)
		}
		if time.Now().After(deadline) {
			return contract.Errorf(contract.SessionState, "control socket: another process keeps its directory locked")
		}
	}
	// Closing the descriptor unlocks.
	return f()
}

// RemoveStale removes the socket at path when it is ours and nobody listens
// on it any more. It reports whether it removed one; nothing at path is fine.
func RemoveStale(path string) (bool, error) {
	if err := checkPath(path); err != nil {
		return false, err
	}
	if _, err := os.Lstat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return false, err
	}
	defer dir.Close()
	var removed bool
	err = dir.locked(func() error {
		removed, err = removeStale(path)
		return err
	})
	return removed, err
}

// removeStale does the work of RemoveStale.
//
// Preconditions: the directory of path is locked.
func removeStale(path string) (bool, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, refused("its path cannot be read", err)
	case info.Mode().Type() != fs.ModeSocket:
		return false, refused("something that is no socket is at its path", nil)
	case ownerOf(info) != os.Geteuid():
		return false, refused("a socket of another user is at its path", nil)
	}
	// Only a refused connection proves that nobody listens: a full backlog
	// (EAGAIN) is a live server.
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return false, contract.Errorf(contract.SessionState, "control socket: another process is using it").WithCause(err)
	}
	if err := os.Remove(path); err != nil {
		return false, failed("cannot remove the dead socket", err)
	}
	return true, nil
}
