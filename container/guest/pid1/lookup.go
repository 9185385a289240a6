package pid1

import (
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// defaultPath is searched when the program's environment has no PATH, as
// execvp(3) does.
const defaultPath = "/bin:/usr/bin"

// prepare makes the home directory, proves the working directory and finds the
// program. Preconditions: it runs with the program's file system ids.
func prepare(m *wire.Exec) (string, *failure) {
	if m.Home != "" {
		if err := unix.Mkdir(m.Home, 0o700); err != nil && err != unix.EEXIST {
			return "", &failure{phaseHome, err}
		}
	}
	if err := canEnter(m.Dir); err != nil {
		return "", &failure{phaseCwd, err}
	}
	path, err := lookup(m.Argv[0], searchPath(m.Env), m.Dir)
	if err != nil {
		return "", &failure{phaseLookup, err}
	}
	return path, nil
}

func canEnter(dir string) error {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS)
}

// searchPath is the PATH of env; the last entry counts, as in a shell.
func searchPath(env []string) string {
	path := defaultPath
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	return path
}

// lookup finds name as execvp(3) does: as it is with a slash in it, else the
// first executable regular file of that name in path. An empty element of path
// is the working directory, which is dir.
func lookup(name, path, dir string) (string, error) {
	if name == "" {
		return "", unix.ENOENT
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	var failed error = unix.ENOENT
	for _, d := range strings.Split(path, ":") {
		if !strings.HasPrefix(d, "/") {
			d = filepath.Join(dir, d)
		}
		candidate := filepath.Join(d, name)
		err := canRun(candidate)
		if err == nil {
			return candidate, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			failed = unix.EACCES
		}
	}
	return "", failed
}

func canRun(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}
