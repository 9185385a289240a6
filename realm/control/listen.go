package control

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"realm.dev/contract"
)

// Listener is a unix socket that only its owner can reach.
type Listener struct {
	inner *net.UnixListener
	path  string
	owner uint32
	bound os.FileInfo // the socket as bound, so that only it is removed

	closeOnce sync.Once
	closeErr  error
}

// Listen makes the socket at path, with its directory when only that is
// missing. At no moment is the socket wider than 0600 or the directory wider
// than 0700. A dead socket of ours at path is replaced; anything else there,
// and a directory that somebody else could change, is refused.
func Listen(path string) (*Listener, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	dir, err := openDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var l *Listener
	err = dir.locked(func() error {
		if _, err := removeStale(path); err != nil {
			return err
		}
		l, err = bind(path)
		return err
	})
	return l, err
}

// checkPath refuses names that are not a plain absolute path: an abstract name
// (first byte NUL, written "@" by Go) has no owner and no mode.
func checkPath(path string) error {
	switch {
	case !filepath.IsAbs(path) || filepath.Clean(path) != path || !validName(path):
		return contract.Errorf(contract.PathRefused, "control socket: the path must be absolute and clean")
	case len(path) > contract.MaxSocketPath:
		return contract.Errorf(contract.LimitExceeded, "control socket: the path has %d bytes, a socket address holds %d", len(path), contract.MaxSocketPath).
			WithHint("use a shorter runtime directory (XDG_RUNTIME_DIR) or session id")
	}
	return nil
}

func validName(path string) bool {
	for i := range len(path) {
		if path[i] == 0 {
			return false
		}
	}
	return true
}

// bind makes the socket. Linux gives a bound socket the mode of the unbound
// one (less the umask), so a mode set before bind needs neither a umask change,
// which would race with other goroutines, nor a later chmod, which would leave
// a gap.
func bind(path string) (*Listener, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var chmodErr error
		err := c.Control(func(fd uintptr) { chmodErr = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, chmodErr)
	}}
	generic, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, failed("cannot listen", err)
	}
	inner := generic.(*net.UnixListener)
	// Go would unlink by name whatever is there; Close compares first.
	inner.SetUnlinkOnClose(false)
	l := &Listener{inner: inner, path: path, owner: uint32(os.Geteuid())}
	if l.bound, err = os.Lstat(path); err != nil {
		return nil, errors.Join(failed("cannot read the socket back", err), inner.Close())
	}
	if l.bound.Mode() != fs.ModeSocket|0o600 {
		return nil, errors.Join(failed("the kernel gave the socket another mode", nil), l.Close())
	}
	return l, nil
}

// Accept returns the next connection of the owner. Others are closed before
// they are read.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.inner.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(c); err == nil && uid == l.owner {
			return c, nil
		}
		c.Close()
	}
}

// peerUID returns the effective uid that the peer had when it connected, as
// the kernel recorded it. A uid that has no name in our user namespace reads
// as the overflow uid, which owns no session.
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var (
		cred    *syscall.Ucred
		sockErr error
	)
	if err := raw.Control(func(fd uintptr) {
		cred, sockErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if sockErr != nil {
		return 0, sockErr
	}
	return cred.Uid, nil
}

// Addr returns the socket's address.
func (l *Listener) Addr() net.Addr { return l.inner.Addr() }

// Close removes the socket from disk, if what is there is still the one that
// Listen made, and stops listening.
func (l *Listener) Close() error {
	l.closeOnce.Do(func() {
		// The name goes first: while the socket is open its inode cannot be
		// given to another file, so equal device and inode mean ours.
		l.closeErr = errors.Join(l.unlink(), l.inner.Close())
	})
	return l.closeErr
}

func (l *Listener) unlink() error {
	now, err := os.Lstat(l.path)
	if err != nil || !os.SameFile(now, l.bound) {
		return nil
	}
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return failed("cannot remove the socket", err)
	}
	return nil
}

func failed(what string, cause error) *contract.Error {
	return contract.Errorf(contract.Internal, "control socket: %s", what).WithCause(cause)
}
