package podman

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

// devices are the nodes that a runtime binds into a user namespace's /dev.
var devices = []string{"/dev/console", "/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"}

// checkMounts compares the mounts that the kernel has for pid with what was
// asked, and every bind with its source: that also proves that the engine's
// paths are ours.
func checkMounts(pid int, want *specgen.SpecGenerator) error {
	f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "mountinfo"))
	if err != nil {
		return unproven("the container's mounts cannot be read", err)
	}
	defer f.Close()
	found, err := mountinfo.GetMountsFromReader(f, nil)
	if err != nil {
		return unproven("the container's mounts cannot be read", err)
	}
	if err := checkMountTree(found, want); err != nil {
		return err
	}
	return checkSources(pid, want)
}

func unproven(what string, cause error) error {
	return contract.Errorf(contract.IsolationUnproven, "%s", what).WithCause(cause)
}

// checkMountTree compares the mounts that can be reached.
func checkMountTree(found []*mountinfo.Info, want *specgen.SpecGenerator) error {
	reached := reachable(found)
	if root := reached["/"]; root == nil || *want.ReadOnlyFilesystem && !slices.Contains(strings.Split(root.Options, ","), "ro") {
		return unproven("the container's root is writable", fmt.Errorf("%+v", root))
	}
	for _, m := range want.Mounts {
		got, ok := reached[m.Destination]
		if !ok {
			return unproven("a mount is missing in the container", fmt.Errorf("%s", m.Destination))
		}
		delete(reached, m.Destination)
		for _, o := range []string{"ro", "nosuid", "nodev", "noexec"} {
			if slices.Contains(m.Options, o) && !slices.Contains(strings.Split(got.Options, ","), o) {
				return unproven("a mount in the container is weaker than asked", fmt.Errorf("%s: %s", m.Destination, got.Options))
			}
		}
		if m.Type == define.TypeTmpfs && got.FSType != define.TypeTmpfs {
			return unproven("a mount in the container is not what was asked", fmt.Errorf("%s: %s", m.Destination, got.FSType))
		}
	}
	for point, m := range reached {
		if m.Optional != "" {
			return unproven("a mount in the container is shared with the host", fmt.Errorf("%s: %s", point, m.Optional))
		}
		if !engines(point, m) {
			return unproven("there is a mount in the container that was not asked for", fmt.Errorf("%s: %s", point, m.FSType))
		}
	}
	return nil
}

// engines says whether the engine or its runtime mounts m at point by itself.
func engines(point string, m *mountinfo.Info) bool {
	if e, ok := engineMounts[point]; ok {
		return m.FSType == e.kind || e.kind == "cgroup" && (m.FSType == "tmpfs" || m.FSType == "cgroup2") || e.kind == define.TypeBind
	}
	switch {
	case point == "/", slices.Contains(devices, point):
		return true
	case path.Dir(point) == "/sys/fs/cgroup":
		return m.FSType == "cgroup" || m.FSType == "cgroup2"
	}
	// A mask or a read-only view of proc and sys.
	return (strings.HasPrefix(point, "/proc/") || strings.HasPrefix(point, "/sys/")) &&
		slices.Contains(strings.Split(m.Options, ","), "ro") &&
		slices.Contains([]string{"proc", "sysfs", "tmpfs", "devtmpfs"}, m.FSType)
}

// reachable returns the mounts that a path can lead to, by mount point: not
// those that another mount lies over.
func reachable(list []*mountinfo.Info) map[string]*mountinfo.Info {
	children := map[int][]*mountinfo.Info{}
	ids := map[int]bool{}
	for _, m := range list {
		children[m.Parent] = append(children[m.Parent], m)
		ids[m.ID] = true
	}
	out := map[string]*mountinfo.Info{}
	var walk func(m *mountinfo.Info)
	walk = func(m *mountinfo.Info) {
		kids := children[m.ID]
		for _, k := range kids {
			if k.Mountpoint == m.Mountpoint && k.ID != m.ID {
				walk(k)
				return
			}
		}
		out[m.Mountpoint] = m
		for _, k := range kids {
			hidden := slices.ContainsFunc(kids, func(o *mountinfo.Info) bool {
				return strings.HasPrefix(k.Mountpoint, strings.TrimSuffix(o.Mountpoint, "/")+"/")
			})
			if k.ID != m.ID && !hidden {
				walk(k)
			}
		}
	}
	for _, m := range list {
		if !ids[m.Parent] || m.Parent == m.ID {
			walk(m)
		}
	}
	return out
}

// checkSources opens each bind inside and out: one file, or the engine bound
// something else.
func checkSources(pid int, want *specgen.SpecGenerator) error {
	root, err := unix.Open(filepath.Join("/proc", strconv.Itoa(pid), "root"), unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return unproven("the container's root cannot be read", err)
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	for _, m := range want.Mounts {
		if m.Type != define.TypeBind {
			continue
		}
		fd, err := unix.Openat2(root, m.Destination, &how)
		if err != nil {
			return unproven("a mount in the container cannot be read", fmt.Errorf("%s: %w", m.Destination, err))
		}
		var inside, outside unix.Stat_t
		err = unix.Fstat(fd, &inside)
		unix.Close(fd)
		if err == nil {
			err = unix.Stat(m.Source, &outside)
		}
		if err != nil || inside.Dev != outside.Dev || inside.Ino != outside.Ino {
			return unproven("a mount in the container shows something else", fmt.Errorf("%s: %w", m.Destination, err))
		}
	}
	return nil
}
