package guest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

const (
	// SocketName is the name of the socket in the session's directory.
	SocketName = "init.sock"
	// Version is the protocol version that both ends have to speak.
	Version = wire.Version
	// DefaultOwnerGrace is how long init waits for an owner to come back.
	DefaultOwnerGrace = 60 * time.Second

	// writeTimeout bounds the writing of a frame to an init that does not read.
	writeTimeout = 10 * time.Second
	// meetTimeout bounds the exchange of the first frames.
	meetTimeout = 10 * time.Second
	// backlog leaves room for peers that are not init.
	backlog = 16
)

// Listener waits for init to dial.
type Listener struct {
	// OwnerGrace is how long init keeps the session without a link before it
	// ends it; 0 means DefaultOwnerGrace. It is set before Accept.
	OwnerGrace time.Duration

	dir   *os.File // the directory, so that its path may be of any length
	file  *os.File // the listening socket
	close sync.Once
}

// Listen listens on the socket of the session directory dir. The container's
// uid 0 is some other uid on the host, so the directory is made searchable and
// the socket writable for all: the parent of dir has to be private.
func Listen(dir string) (*Listener, error) {
	d, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	file, err := listenAt(d)
	if err != nil {
		d.Close()
		return nil, fmt.Errorf("listen for init: %w", err)
	}
	return &Listener{dir: d, file: file}, nil
}

func listenAt(dir *os.File) (*os.File, error) {
	path := "/proc/self/fd/" + strconv.Itoa(int(dir.Fd()))
	if err := os.Chmod(path, 0o711); err != nil {
		return nil, err
	}
	path += "/" + SocketName
	if err := removeSocket(path); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// removeSocket removes a socket that an earlier owner left, and nothing else.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return unix.EEXIST
	}
	return os.Remove(path)
}

// Accept waits for the process initPID (a number of our pid namespace) to dial
// and returns the link to it. Any other peer is closed. On return the listener
// is closed and its socket removed.
func (l *Listener) Accept(ctx context.Context, initPID int) (*Link, error) {
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { _ = l.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		fd, err := l.accept()
		if ctx.Err() != nil {
			if err == nil {
				unix.Close(fd)
			}
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("accept init: %w", err)
		}
		peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil || int(peer.Pid) != initPID {
			unix.Close(fd)
			continue
		}
		return l.meet(ctx, fd)
	}
}

func (l *Listener) accept() (fd int, err error) {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return -1, err
	}
	var aerr error
	err = raw.Read(func(s uintptr) bool {
		for {
			fd, _, aerr = unix.Accept4(int(s), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
			if aerr != unix.EINTR && aerr != unix.ECONNABORTED {
				return aerr != unix.EAGAIN
			}
		}
	})
	return fd, errors.Join(err, aerr)
}

// meet exchanges the first frames.
func (l *Listener) meet(ctx context.Context, fd int) (*Link, error) {
	conn, err := wire.NewConn(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	hello, err := l.exchange(conn)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		conn.Discard()
		return nil, linkError(err)
	}
	return newLink(conn, hello), nil
}

func (l *Listener) exchange(conn *wire.Conn) (*wire.Hello, error) {
	conn.WriteTimeout = writeTimeout
	if err := conn.SetReadDeadline(time.Now().Add(meetTimeout)); err != nil {
		return nil, err
	}
	f, err := conn.Read()
	if err != nil {
		return nil, err
	}
	if f.Type != wire.TypeHello || len(f.Files) > 0 {
		wire.CloseFiles(f.Files)
		return nil, &ProtocolError{Reason: "no hello"}
	}
	var hello wire.Hello
	if err := wire.DecodeInto(&hello, f.Payload); err != nil {
		return nil, err
	}
	grace := l.OwnerGrace
	if grace == 0 {
		grace = DefaultOwnerGrace
	}
	millis := uint32(min(max(grace.Milliseconds(), 0), math.MaxUint32))
	if err := conn.Write(0, &wire.Welcome{OwnerGraceMillis: millis}); err != nil {
		return nil, err
	}
	return &hello, conn.SetReadDeadline(time.Time{})
}

// Close closes the listener and removes its socket. It may be called again.
func (l *Listener) Close() error {
	var err error
	l.close.Do(func() {
		err = errors.Join(
			removeSocket("/proc/self/fd/"+strconv.Itoa(int(l.dir.Fd()))+"/"+SocketName),
			l.file.Close(),
			l.dir.Close(),
		)
	})
	return err
}
