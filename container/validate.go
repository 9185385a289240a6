package container

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"realm.dev/contract"
)

// names is what may become part of a container's name and labels.
var names = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}$`)

// hostnames is what the kernel and resolvers take for a host name.
var hostnames = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?$`)

// Validate checks everything about s that no engine has to be asked for. A Spec
// is made by realm, so what it finds is a defect of realm: INTERNAL.
func (s *Spec) Validate() error {
	for _, check := range []func() string{s.identity, s.roots, s.limits, s.mounts} {
		if problem := check(); problem != "" {
			return contract.Errorf(contract.Internal, "container spec: %s", problem)
		}
	}
	return nil
}

func (s *Spec) identity() string {
	switch {
	case !names.MatchString(s.SessionID) || !names.MatchString(s.RealmID) || !names.MatchString(s.Epoch):
		return "an id has characters that a label cannot hold"
	case !hostnames.MatchString(s.Hostname):
		return "the host name is not one"
	}
	return ""
}

func (s *Spec) roots() string {
	switch {
	case (s.Rootfs == "") == (s.Image == ""):
		return "exactly one of rootfs and image must be set"
	case s.Rootfs != "" && !clean(s.Rootfs):
		return "the rootfs is not an absolute, clean path"
	case strings.HasPrefix(s.Image, "-"):
		return "the image is not a reference"
	case !clean(s.Init.Binary) || !clean(s.Init.SocketDir) || !clean(s.SeccompProfile):
		return "the init, its socket or the seccomp profile is not an absolute, clean path"
	}
	return ""
}

func (s *Spec) limits() string {
	l := s.Limits
	if l.MemoryBytes <= 0 || l.Pids <= 0 || l.OpenFiles <= 0 || l.CPUs <= 0 {
		return "a limit is not positive"
	}
	return ""
}

// mounts checks that every destination is there once, below the root and not on
// what the engine mounts itself.
func (s *Spec) mounts() string {
	seen := map[string]bool{InitPath: true, SocketDir: true}
	take := func(destination string) string {
		switch {
		case !clean(destination) || destination == "/":
			return "a mount's destination is not an absolute, clean path below the root"
		case seen[destination]:
			return "two mounts have one destination"
		case slices.ContainsFunc(reserved, func(r string) bool { return destination == r || strings.HasPrefix(destination, r+"/") }) &&
			destination != "/dev/shm" && destination != CoverDir:
			return "a mount's destination is the engine's own"
		}
		seen[destination] = true
		return ""
	}
	for _, b := range append([]Bind{s.Workspace}, s.Binds...) {
		if !clean(b.Source) {
			return "a mount's source is not an absolute, clean path"
		}
		if problem := take(b.Destination); problem != "" {
			return problem
		}
	}
	for _, t := range s.Tmpfs {
		if t.SizeBytes <= 0 {
			return "a memory file system has no size"
		}
		if problem := take(t.Destination); problem != "" {
			return problem
		}
	}
	if !seen["/dev/shm"] {
		return "/dev/shm has no size"
	}
	return ""
}

// reserved are the directories that the engine fills.
var reserved = []string{"/proc", "/sys", "/dev", "/.realm"}

func clean(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}
