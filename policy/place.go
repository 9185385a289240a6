package policy

import (
	"errors"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"realm.dev/contract"
)

// Host holds the facts of this machine that the place rules need. Paths are
// absolute and resolved.
type Host struct {
	Home      string
	Forbidden []string // realm's state and runtime directories, Podman's storage
}

// maxPlaceBytes is PATH_MAX.
const maxPlaceBytes = 4096

// Workspace checks the name of a workspace, without looking at the file system,
// and returns it clean. Callers ask for the name as given and as resolved.
func Workspace(dir string, h Host) (string, error) {
	clean, err := cleanPlace(dir)
	if err == nil {
		err = checkWorkspace(clean, h)
	}
	if err != nil {
		return "", contract.Errorf(contract.SchemaInvalid, "the workspace %s", err)
	}
	return clean, nil
}

// notAWorkspace are directories that hold more than one project or the system.
var notAWorkspace = []string{
	"/", "/bin", "/boot", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32",
	"/root", "/sbin", "/tmp", "/usr", "/var", "/var/lib", "/var/tmp",
}

// kernelPlaces hold sockets, devices and the kernel's own files.
var kernelPlaces = []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/var/lock"}

func checkWorkspace(dir string, h Host) error {
	switch {
	case slices.Contains(notAWorkspace, dir):
		return errors.New("is a system directory or one of many owners: name a directory in it")
	case insideAny(dir, kernelPlaces):
		return errors.New("is a place of the kernel, of devices or of sockets")
	case h.Home != "" && dir == path.Clean(h.Home):
		return errors.New("is your home directory: name a directory in it")
	}
	return checkForbidden(dir, h)
}

// notAMount are directories that are never mounted, nor is anything in them:
// the session has its own, or they hold secrets.
var notAMount = []string{"/proc", "/sys", "/dev", "/run", "/var/run", "/var/lock", "/etc", "/boot", "/tmp"}

// systemPlaces are never writable in a session.
var systemPlaces = []string{"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr"}

// secretNames are credential stores, wherever they lie.
var secretNames = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc", ".git-credentials",
	".password-store", ".vault-token", ".config/gcloud", ".config/gh", ".config/containers",
	".local/share/keyrings", ".mozilla", ".config/google-chrome", ".config/chromium",
	".local/share/containers", "/var/lib/containers", "/var/lib/docker", "/var/spool", "/var/log",
}

// MountPath checks a further host directory, without looking at the file
// system. Callers ask for the name as given and as resolved.
func MountPath(dir string, write bool, h Host) error {
	clean, err := cleanPlace(dir)
	switch {
	case err != nil:
		return err
	case clean != dir:
		return errors.New("must be written without a trailing slash, // or . segments")
	case slices.Contains(notAWorkspace, dir), isHomeDir(dir):
		return errors.New("is a system directory, a home, or one of many owners: name a directory in it")
	case insideAny(dir, notAMount):
		return errors.New("is a place that a session has of its own, or that holds secrets of the system")
	case write && insideAny(dir, systemPlaces):
		return errors.New("is part of the system and cannot be writable")
	case strings.HasSuffix(dir, ".sock"):
		return errors.New("is a socket")
	case holdsSecretName(dir):
		return errors.New("is in a place where credentials or container storage lie")
	case h.Home != "" && inside(path.Clean(h.Home), dir):
		return errors.New("is or contains your home directory")
	}
	return checkForbidden(dir, h)
}

// isHomeDir reports whether dir is directly below /home.
func isHomeDir(dir string) bool { return path.Dir(dir) == "/home" }

// holdsSecretName reports whether dir is, or lies in, a credential store.
func holdsSecretName(dir string) bool {
	folded := strings.ToLower(dir) + "/"
	return slices.ContainsFunc(secretNames, func(s string) bool {
		if s[0] == '/' {
			return inside(dir, s)
		}
		return strings.Contains(folded, "/"+s+"/")
	})
}

// checkForbidden refuses what overlaps a directory of realm or Podman.
func checkForbidden(dir string, h Host) error {
	for _, f := range h.Forbidden {
		if f = path.Clean(f); inside(dir, f) || inside(f, dir) {
			return errors.New("contains or lies in a directory of realm or of Podman")
		}
	}
	return nil
}

// cleanPlace checks what every directory of the host must be.
func cleanPlace(dir string) (string, error) {
	switch {
	case dir == "":
		return "", errors.New("must not be empty")
	case len(dir) > maxPlaceBytes:
		return "", errors.New("is longer than 4096 bytes")
	case !utf8.ValidString(dir):
		return "", errors.New("is not valid UTF-8")
	case strings.ContainsFunc(dir, unicode.IsControl):
		return "", errors.New("contains a control character")
	case !path.IsAbs(dir):
		return "", errors.New("must be an absolute path")
	case slices.Contains(strings.Split(dir, "/"), ".."):
		return "", errors.New("has a .. segment")
	}
	return path.Clean(dir), nil
}

// inside reports whether dir is place or below it, by whole segments.
func inside(dir, place string) bool {
	return dir == place || place == "/" || strings.HasPrefix(dir, place+"/")
}

func insideAny(dir string, places []string) bool {
	return slices.ContainsFunc(places, func(p string) bool { return inside(dir, p) })
}
