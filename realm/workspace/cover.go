package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// coverFile is what a hidden name is covered with. Both are readable by
// everybody, so that reading a hidden file gives nothing rather than an error.
func coverFile(stateDir string, dir bool) string {
	if dir {
		return filepath.Join(stateDir, "cover", "dir")
	}
	return filepath.Join(stateDir, "cover", "file")
}

// makeCovers makes the covers, or makes sure that they are empty.
func makeCovers(stateDir string) error {
	dir := coverFile(stateDir, true)
	err := os.MkdirAll(filepath.Dir(dir), 0o700)
	if err == nil {
		err = os.Mkdir(dir, 0o555)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(coverFile(stateDir, false), os.O_CREATE|os.O_RDONLY, 0o444); err == nil {
			f.Close()
		}
	}
	if err == nil {
		err = os.Chmod(filepath.Dir(dir), 0o755)
	}
	if err != nil {
		return ioError(err, "the covers for hidden names could not be made")
	}
	names, derr := os.ReadDir(dir)
	fi, ferr := os.Lstat(coverFile(stateDir, false))
	if derr != nil || ferr != nil || len(names) > 0 || !fi.Mode().IsRegular() || fi.Size() > 0 {
		return contract.Errorf(contract.Internal, "the covers for hidden names are not empty").
			WithHint("remove %s when no session runs", filepath.Dir(dir))
	}
	return nil
}

// ownDir makes dir, private, for the workspace's owner, or accepts the one that
// is there when it is the owner's.
func ownDir(dir string, owner [2]int) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return ioError(err, "a directory of realm could not be made")
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil && (os.Geteuid() != owner[0] || os.Getegid() != owner[1]) {
		err = os.Lchown(dir, owner[0], owner[1])
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return ioError(err, "a directory of realm could not be made")
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return ioError(err, "a directory of realm could not be read")
	}
	if names, _ := os.ReadDir(dir); isDir(&st) && int(st.Uid) == os.Geteuid() && int(st.Uid) != owner[0] && len(names) == 0 {
		// Made, and then killed before it was given away.
		if err := os.Lchown(dir, owner[0], owner[1]); err == nil {
			return nil
		}
	}
	if !isDir(&st) || int(st.Uid) != owner[0] {
		return contract.Errorf(contract.Internal, "the place of a directory of realm is taken by something that is not the workspace owner's")
	}
	return nil
}

// joinErrors is errors.Join that keeps the code of the first error.
func joinErrors(errs []error) error {
	joined := errors.Join(errs...)
	if joined == nil {
		return nil
	}
	if e, ok := errors.AsType[*contract.Error](joined); ok {
		return e
	}
	return ioError(joined, "cleaning up")
}
