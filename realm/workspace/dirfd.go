package workspace

import (
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The functions here take names one component at a time and follow no link, so
// that a tree that changes meanwhile cannot lead them elsewhere.

// openAt opens one component of dir without following it.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		// The name is one that leads back to the descriptor: ReadDir stats by it
		// where the file system does not tell types.
		return os.NewFile(uintptr(fd), "/proc/self/fd/"+strconv.Itoa(fd)), nil
	}
}

// openDir opens the directory rel below root, component by component.
func openDir(root *os.File, rel string) (*os.File, error) {
	dir, err := openAt(root, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil || rel == "" || rel == "." {
		return dir, err
	}
	for name := range strings.SplitSeq(rel, "/") {
		next, err := openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		dir.Close()
		if err != nil {
			return nil, err
		}
		dir = next
	}
	return dir, nil
}

// openParent opens the directory that holds rel and returns rel's last component.
func openParent(root *os.File, rel string) (*os.File, string, error) {
	parent, base := path.Split(rel)
	dir, err := openDir(root, strings.TrimSuffix(parent, "/"))
	return dir, base, err
}

// lstatRel stats rel below root; no component is followed.
func lstatRel(root *os.File, rel string) (*unix.Stat_t, error) {
	dir, base, err := openParent(root, rel)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return lstatAt(dir, base)
}

func lstatAt(dir *os.File, name string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return nil, err
	}
	return &st, nil
}

func exists(root *os.File, rel string) bool {
	_, err := lstatRel(root, rel)
	return err == nil
}

func fstat(f *os.File) (*unix.Stat_t, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, ioError(err, "a file could not be examined")
	}
	return &st, nil
}

func isDir(st *unix.Stat_t) bool     { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
func isRegular(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }
func isLink(st *unix.Stat_t) bool    { return st.Mode&unix.S_IFMT == unix.S_IFLNK }

// writeNew makes a file that must not exist.
func writeNew(dir *os.File, name, content string) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = io.WriteString(f, content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// readBounded reads the regular file name in dir, at most limit+1 bytes.
func readBounded(dir *os.File, name string, limit int64) ([]byte, error) {
	f, err := openAt(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := fstat(f); err != nil {
		return nil, err
	} else if !isRegular(st) {
		return nil, unix.EINVAL
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// procPath names an open file for calls that take only a name.
func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// realName is the absolute name that f has now.
func realName(f *os.File) (string, error) { return os.Readlink(procPath(f)) }

// readAbsolute reads a small regular file by its absolute name.
func readAbsolute(name string) (string, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if st, err := fstat(f); err != nil || !isRegular(st) {
		return "", unix.EINVAL
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	return string(data), err
}
