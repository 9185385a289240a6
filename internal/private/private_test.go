package private

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openDir(t *testing.T) (*Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "d")
	must(t, os.Mkdir(path, 0o700))
	d, err := OpenDir(path)
	must(t, err)
	t.Cleanup(func() { d.Close() })
	return d, path
}

func TestOpenDirRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(t *testing.T, path string)
		want contract.Code
	}{
		"missing": {func(*testing.T, string) {}, contract.PathNotFound},
		"file":    {func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, contract.PathRefused},
		"link":    {func(t *testing.T, path string) { must(t, os.Symlink(t.TempDir(), path)) }, contract.PathRefused},
		"wide":    {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o750)) }, contract.PathRefused},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "d")
			tt.make(t, path)
			if _, err := OpenDir(path); contract.CodeOf(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestReplaceAndRead(t *testing.T) {
	d, path := openDir(t)
	for _, content := range []string{"first", "", "second"} {
		must(t, d.Replace("f", []byte(content)))
		got, err := d.Read("f", 6)
		if err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	if _, err := d.Read("f", 5); contract.CodeOf(err) != contract.LimitExceeded {
		t.Errorf("above the limit: %v", err)
	}
	info, err := os.Lstat(filepath.Join(path, "f"))
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	must(t, d.Remove("f"))
	must(t, d.Remove("f"))
	if _, err := d.Read("f", 6); contract.CodeOf(err) != contract.PathNotFound || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

// What is in the place of a file is refused, never followed and never waited for.
func TestOpenRefuses(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, path string){
		"link": func(t *testing.T, path string) { must(t, os.Symlink("/dev/zero", path)) },
		"good link": func(t *testing.T, path string) {
			must(t, os.WriteFile(path+"2", nil, 0o600))
			must(t, os.Symlink(path+"2", path))
		},
		"fifo":      func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) },
		"directory": func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
		"wide": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Chmod(path, 0o604))
		},
		"two names": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Link(path, path+"2"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, path := openDir(t)
			make(t, filepath.Join(path, "f"))
			for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR | unix.O_APPEND | unix.O_CREAT} {
				f, err := d.Open("f", flags)
				if contract.CodeOf(err) != contract.PathRefused {
					t.Errorf("flags %#x: %v", flags, err)
				}
				if f != nil {
					f.Close()
				}
			}
		})
	}
}

// A directory that is renamed, and another put in its place, leads nowhere else.
func TestDirStaysItself(t *testing.T) {
	d, path := openDir(t)
	must(t, os.Rename(path, path+".moved"))
	must(t, os.Mkdir(path, 0o700))
	must(t, d.Replace("f", []byte("x")))
	if got, err := os.ReadFile(filepath.Join(path+".moved", "f")); err != nil || !bytes.Equal(got, []byte("x")) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestFailed(t *testing.T) {
	for errno, want := range map[error]contract.Code{
		syscall.ENOSPC: contract.LimitExceeded, syscall.EDQUOT: contract.LimitExceeded,
		syscall.EMFILE: contract.LimitExceeded, syscall.EIO: contract.Internal,
	} {
		e := Failed("f", "cannot be read", &fs.PathError{Op: "read", Path: "/secret", Err: errno})
		if e.Code != want || e.Errno != unix.ErrnoName(errno.(syscall.Errno)) { //nolint:errorlint // the table holds it bare
			t.Errorf("%v: %s, %s", errno, e.Code, e.Errno)
		}
	}
}
