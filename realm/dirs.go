package realm

import (
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"realm.dev/contract"
)

// Dirs are the two directories that realm keeps.
type Dirs struct {
	State   string // records, journals, homes, spilled output; survives a reboot
	Runtime string // sockets; ends with the login session
}

// DefaultDirs returns the directories of the user who runs this process:
// $XDG_STATE_HOME/realm, else ~/.local/state/realm, and $XDG_RUNTIME_DIR/realm,
// else /tmp/realm-UID.
func DefaultDirs() (Dirs, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil || !filepath.IsAbs(home) {
			return Dirs{}, contract.Errorf(contract.Internal, "no home directory").
				WithCause(err).WithHint("set XDG_STATE_HOME to an absolute directory")
		}
		state = filepath.Join(home, ".local", "state")
	}
	run := os.Getenv("XDG_RUNTIME_DIR")
	if filepath.IsAbs(run) {
		run = filepath.Join(run, "realm")
	} else {
		run = "/tmp/realm-" + strconv.Itoa(os.Getuid())
	}
	return Dirs{State: filepath.Join(state, "realm"), Runtime: run}, nil
}

func (d Dirs) sessions() string               { return filepath.Join(d.State, "sessions") }
func (d Dirs) session(id string) string       { return filepath.Join(d.sessions(), id) }
func (d Dirs) workspaces() string             { return filepath.Join(d.State, "workspaces") }
func (d Dirs) homes() string                  { return filepath.Join(d.State, "homes") }
func (d Dirs) sweepLock() string              { return filepath.Join(d.State, "sweep.lock") }
func (d Dirs) socket(realm, id string) string { return filepath.Join(d.Runtime, realm, id+".sock") }
func (d Dirs) link(realm, id string) string   { return filepath.Join(d.Runtime, realm, id+".link") }

// box holds the files that a session's container is made of. They are many and
// small, and the runtime directory is usually in memory.
func (d Dirs) box(realm, id string) string { return filepath.Join(d.Runtime, realm, id+".box") }

// Ensure makes both directories, private to this user, and refuses what
// somebody else made at their place.
func (d Dirs) Ensure() error {
	for _, dir := range []string{d.State, d.sessions(), d.homes(), d.workspaces(), d.Runtime} {
		if err := privateDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// privateDir makes dir with mode 0700, or accepts it when it is a directory of
// this user that nobody else can write.
func privateDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return contract.Errorf(contract.Internal, "a directory of realm could not be made").WithCause(err)
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return contract.Errorf(contract.Internal, "a directory of realm could not be made").WithCause(err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return contract.Errorf(contract.Internal, "a directory of realm could not be read").WithCause(err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !fi.IsDir() || !ok || int(st.Uid) != os.Geteuid() {
		return contract.Errorf(contract.Internal, "the place of a directory of realm is taken by something that is not this user's directory").
			WithHint("look at %s", filepath.Dir(dir))
	}
	if fi.Mode().Perm()&0o022 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return contract.Errorf(contract.Internal, "a directory of realm could not be closed to others").WithCause(err)
		}
	}
	return nil
}

// realmID returns the id of the realm that d is, made once. It tells this
// realm's containers from those of other state directories on the same engine.
func (d Dirs) realmID() (string, error) {
	path := filepath.Join(d.State, "realm-id")
	if id, err := readID(path); err == nil {
		return id, nil
	}
	id := "realm-" + randomID(8)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return readID(path)
	}
	if err != nil {
		return "", contract.Errorf(contract.Internal, "the realm's id could not be written").WithCause(err)
	}
	_, werr := f.WriteString(id + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
		return "", contract.Errorf(contract.Internal, "the realm's id could not be written").WithCause(err)
	}
	return id, nil
}

func readID(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(b))
	if !validID(id) {
		return "", contract.Errorf(contract.Internal, "the realm's id file does not hold an id").
			WithHint("remove %s when no session runs", path)
	}
	return id, nil
}

// validID reports whether id is safe as a path component and container name.
func validID(id string) bool {
	if len(id) == 0 || len(id) > 63 {
		return false
	}
	for i := range len(id) {
		c := id[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' && i > 0 {
			continue
		}
		return false
	}
	return true
}

// randomID returns n characters that are legal in an id and cannot be guessed
// for n of about 12 and more (5 bits each).
func randomID(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return strings.ToLower(base32.StdEncoding.EncodeToString(b))[:n]
}

// newSessionID returns an unguessable id of 16 characters.
func newSessionID() string { return "s-" + randomID(14) }
