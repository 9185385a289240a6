// Package private reads and replaces files that belong to this user alone.
//
// Everything goes through an open directory, so that a name that changes
// meanwhile cannot lead elsewhere. What is not ours, is a link, or is open to
// other users is refused and left as it is.
package private

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// Dir is an open directory of ours with mode 0700.
type Dir struct{ file *os.File }

// dirName stands for the directory in errors: its real name is somebody's input.
const dirName = "the directory"

// OpenDir opens the directory at path. A symbolic link there is refused.
func OpenDir(path string) (*Dir, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, notOpened(dirName, err)
	}
	info, err := f.Stat()
	if err == nil {
		err = checkOwn(dirName, info)
	}
	if err != nil {
		f.Close()
		return nil, contract.AsError(err)
	}
	return &Dir{file: f}, nil
}

// Fd is the directory's descriptor, valid until Close.
func (d *Dir) Fd() int { return int(d.file.Fd()) }

// Close closes the directory.
func (d *Dir) Close() error { return d.file.Close() }

// Sync makes the directory's entries last through a power loss.
func (d *Dir) Sync() error {
	if err := d.file.Sync(); err != nil {
		return Failed(dirName, "cannot be synced", err)
	}
	return nil
}

// Open opens the regular file name, which must be ours, closed to others and
// without another name. With O_CREAT it is made with mode 0600.
func (d *Dir) Open(name string, flags int) (*os.File, error) {
	// O_NONBLOCK: a FIFO in its place does not make us wait.
	const always = unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := unix.Openat(d.Fd(), name, flags|always, 0o600)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat(d.Fd(), name, flags|always, 0o600)
	}
	if err != nil {
		return nil, notOpened(name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	info, err := f.Stat()
	if err == nil {
		err = checkFile(name, info)
	}
	if err != nil {
		f.Close()
		return nil, contract.AsError(err)
	}
	return f, nil
}

// Read returns the whole file name, which has at most limit bytes.
func (d *Dir) Read(name string, limit int64) ([]byte, error) {
	f, err := d.Open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, Failed(name, "cannot be read", err)
	}
	if int64(len(b)) > limit {
		return nil, contract.Errorf(contract.LimitExceeded, "%s has more than %d bytes", name, limit)
	}
	return b, nil
}

// Replace makes data the content of the file name, whole or not at all, and
// on disk when it returns. The name of its temporary file is fixed: a crash
// leaves at most one, and the next Replace takes it away. Only one process at
// a time may replace a file.
func (d *Dir) Replace(name string, data []byte) error {
	temp := name + ".new"
	if err := d.Remove(temp); err != nil {
		return err
	}
	f, err := d.Open(temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(d.Fd(), temp, d.Fd(), name)
	}
	if err != nil {
		_ = d.Remove(temp) // the next Replace tries again
		return Failed(name, "cannot be written", err)
	}
	return d.Sync()
}

// Remove removes the file name. One that is not there is removed already.
func (d *Dir) Remove(name string) error {
	if err := unix.Unlinkat(d.Fd(), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Failed(name, "cannot be removed", err)
	}
	return nil
}

func checkFile(name string, info fs.FileInfo) error {
	switch {
	case !info.Mode().IsRegular():
		return refused(name, "is not a regular file", nil)
	case info.Sys().(*syscall.Stat_t).Nlink > 1: // 0: replaced since it was opened
		return refused(name, "has another name too", nil)
	}
	return checkOwn(name, info)
}

func checkOwn(name string, info fs.FileInfo) error {
	switch {
	case int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid():
		return refused(name, "belongs to another user", nil)
	case info.Mode().Perm()&0o077 != 0:
		return refused(name, fmt.Sprintf("is open to other users (mode %04o)", info.Mode().Perm()), nil)
	}
	return nil
}

func notOpened(name string, err error) *contract.Error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return contract.Errorf(contract.PathNotFound, "%s is not there", name).WithCause(err)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENXIO):
		return refused(name, "is a symbolic link or of another type", err)
	case errors.Is(err, fs.ErrPermission):
		return refused(name, "cannot be opened by this user", err)
	}
	return Failed(name, "cannot be opened", err)
}

func refused(name, what string, cause error) *contract.Error {
	return contract.Errorf(contract.PathRefused, "%s %s", name, what).WithCause(cause)
}

// Failed is the error for an operation on the file name: LIMIT_EXCEEDED when
// the disk or a table is full, else INTERNAL.
func Failed(name, what string, cause error) *contract.Error {
	code := contract.Internal
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE} {
		if errors.Is(cause, full) {
			code = contract.LimitExceeded
		}
	}
	e := contract.Errorf(code, "%s %s", name, what).WithCause(cause)
	if errno, ok := errors.AsType[syscall.Errno](cause); ok {
		e.Errno = unix.ErrnoName(errno)
	}
	return e
}
