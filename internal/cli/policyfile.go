package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// maxPolicy bounds a policy file; the largest sensible one is a hundredth of it.
const maxPolicy = 1 << 20

// document is the bytes of a file, and how to name it and its places.
type document struct {
	name   string
	data   []byte
	format contract.Format
}

// formatOf tells YAML from JSON by a file's name; without a telling name by its
// first character, since a policy is an object.
func formatOf(name string, data []byte) contract.Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml":
		return contract.YAML
	case ".json":
		return contract.JSON
	}
	if text := strings.TrimLeft(string(data), " \t\r\n"); strings.HasPrefix(text, "{") {
		return contract.JSON
	}
	return contract.YAML
}

// readPolicy reads a policy from a file, or from standard input when path is
// "-". The file must be one that only its owner, who must be this user or root,
// decides about, and must not be in the workspace (when one is given): a
// program that may write there would write its own permissions.
func (a *app) readPolicy(path, workspace string) (document, error) {
	if path == "-" {
		data, err := readBounded(a.In, maxPolicy)
		return document{"standard input", data, formatOf("", data)}, err
	}
	f, err := openPolicy(path)
	if err != nil {
		return document{}, err
	}
	defer f.Close()
	if workspace != "" {
		if err := outside(f, workspace); err != nil {
			return document{}, err
		}
	}
	data, err := readBounded(f, maxPolicy)
	return document{path, data, formatOf(path, data)}, err
}

// openPolicy opens a regular file without following a link in its last place
// and without waiting for the other end of a FIFO.
func openPolicy(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, contract.Errorf(contract.PathNotFound, "there is no such policy file").WithCause(err)
	case errors.Is(err, unix.ELOOP):
		return nil, refusePolicy("is a symbolic link").WithHint("give the file that it leads to")
	case err != nil:
		return nil, refusePolicy("cannot be opened").WithCause(err)
	}
	if err := trusted(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// trusted judges the open file, so that nobody can change it in between.
func trusted(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return refusePolicy("cannot be read").WithCause(err)
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return refusePolicy("is not a regular file")
	case int(st.Uid) != os.Geteuid() && st.Uid != 0:
		return refusePolicy("belongs to another user")
	case st.Mode&0o002 != 0:
		return refusePolicy("can be written by everybody").WithHint("chmod o-w the file")
	case st.Mode&0o020 != 0 && int(st.Gid) != os.Getegid():
		return refusePolicy("can be written by a group that is not this user's own").WithHint("chmod g-w the file")
	case st.Size > maxPolicy:
		return tooLarge(maxPolicy)
	}
	return nil
}

// outside refuses a file that is in the workspace, whatever name led to it.
func outside(f *os.File, workspace string) error {
	file, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return refusePolicy("has no place").WithCause(err)
	}
	root, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return contract.Errorf(contract.PathNotFound, "there is no such workspace").WithCause(err)
	}
	if rel, err := filepath.Rel(root, file); err != nil || filepath.IsLocal(rel) {
		return refusePolicy("is inside the workspace, where the session's programs could change it").
			WithHint("keep policies in %s", policyHome())
	}
	return nil
}

func refusePolicy(why string) *contract.Error {
	return contract.Errorf(contract.PathRefused, "the policy file %s", why)
}

func tooLarge(limit int64) *contract.Error {
	return contract.Errorf(contract.LimitExceeded, "the document is larger than %d bytes", limit)
}

// readBounded reads all of r, or refuses when it is more than limit.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, contract.Errorf(contract.PathRefused, "the document cannot be read").WithCause(err)
	}
	if int64(len(data)) > limit {
		return nil, tooLarge(limit)
	}
	return data, nil
}

// workspaceDir makes the name of a workspace absolute. Everything else about it
// is judged where it is opened.
func workspaceDir(name string) (string, error) {
	if name == "" {
		return "", usagef("--workspace is empty")
	}
	dir, err := filepath.Abs(name)
	if err != nil {
		return "", contract.Errorf(contract.PathNotFound, "the current directory is gone").WithCause(err)
	}
	return dir, nil
}

// policyHome is the directory of this user's policies.
func policyHome() string {
	config := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(config) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "realm")
}
