package probe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// hostSockets are well-known sockets of a host that hand over the host, or
// part of it. Both names of a directory count: /var/run may be no link.
var hostSockets = []string{
	"/run/podman/podman.sock", "/var/run/podman/podman.sock",
	"/run/docker.sock", "/var/run/docker.sock",
	"/run/containerd/containerd.sock", "/run/crio/crio.sock",
	"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket",
	"/run/systemd/private", "/run/systemd/notify", "/run/systemd/resolve/io.systemd.Resolve",
	"/run/nscd/socket", "/var/run/nscd/socket",
	"/run/snapd.socket", "/run/libvirt/libvirt-sock",
	"/run/user/0/bus", "/run/user/1000/bus",
	"/run/user/0/podman/podman.sock", "/run/user/1000/podman/podman.sock",
	"/tmp/.X11-unix/X0",
}

// masked files and directories of /proc and /sys show the host or change it.
var masked = []string{
	"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/latency_stats", "/proc/sched_debug",
	"/proc/scsi", "/proc/acpi", "/sys/firmware",
}

// readOnlyProc are mounts that stop uid 0 of the session as well.
var readOnlyProc = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"}

// unwritable are files through which a container was left before.
var unwritable = []string{
	"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
	"/sys/kernel/uevent_helper", "/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/memory/release_agent",
	"/sys/fs/cgroup/cgroup.procs",
}

func (r *report) files(m *wire.ProbeRequest) {
	r.add(wire.ProbeHostSockets, each(append(hostSockets[:len(hostSockets):len(hostSockets)], m.HostSockets...), noSocket))
	r.add(wire.ProbeProcMasked, each(masked, empty))
	r.add(wire.ProbeProcReadOnly, worst(each(unwritable, noWrite), each(readOnlyProc, readOnlyMount)))
	r.add(wire.ProbeSysReadOnly, worst(cgroupReadOnly("/sys/fs/cgroup"), readOnlyMount("/sys")))
	r.add(wire.ProbeRootfsReadOnly, worst(readOnly("/"), readOnlyMount("/")))
	addEach(r, wire.ProbeWritable, m.Writable, writable)
	addEach(r, wire.ProbeReadOnly, m.ReadOnly, readOnly)
}

func each(paths []string, f func(string) result) result {
	var all []result
	for _, p := range paths {
		all = append(all, f(p))
	}
	return worst(all...)
}

func noSocket(path string) result {
	info, err := os.Stat(path)
	if err == nil && info.Mode().Type() == fs.ModeSocket {
		return bad("in sight")
	}
	return pass("none in sight")
}

// empty passes when a file or directory shows nothing.
func empty(path string) result {
	f, err := os.Open(path)
	if err != nil {
		return pass("masked")
	}
	defer f.Close()
	if names, _ := f.Readdirnames(1); len(names) > 0 {
		return bad("has entries")
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return bad("readable")
	}
	return pass("masked")
}

func noWrite(path string) result {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return bad("writable")
	}
	return pass("not writable")
}

// scratchMax is how large a runtime makes the memory file system that holds the
// hierarchies of cgroup v1.
const scratchMax = 1 << 20

// cgroupReadOnly passes when no cgroup can be written. With cgroup v1 the
// hierarchies are mounts below a memory file system of the runtime's, which
// crun leaves writable: it holds nothing, and must be small.
func cgroupReadOnly(path string) result {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil || st.Flags&unix.ST_RDONLY != 0 || st.Type != unix.TMPFS_MAGIC {
		return readOnlyMount(path)
	}
	if st.Blocks*uint64(st.Bsize) > scratchMax {
		return bad("writable")
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return bad("not visible")
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if r := readOnlyMount(filepath.Join(path, e.Name())); !r.ok {
			return r
		}
	}
	return pass("read-only")
}

// readOnlyMount passes when the mount at path is read-only, or nothing is
// there.
func readOnlyMount(path string) result {
	var st unix.Statfs_t
	switch err := unix.Statfs(path, &st); {
	case err == unix.ENOENT:
		return pass("not there")
	case err != nil:
		return bad("not visible")
	case st.Flags&unix.ST_RDONLY == 0:
		return bad("writable")
	}
	return pass("read-only")
}

// kernelMounts passes when every mount of the kernel's own controls is
// read-only, wherever it is. (Some engines put cgroup v1 hierarchies on a small
// tmpfs that is writable; it controls nothing.)
func kernelMounts(path string) result {
	b, err := os.ReadFile(path)
	if err != nil {
		return bad("not visible")
	}
	for line := range strings.Lines(string(b)) {
		mount, super, ok := strings.Cut(line, " - ")
		fields, fstype := strings.Fields(mount), strings.Fields(super)
		if !ok || len(fields) < 6 || len(fstype) < 1 {
			return bad("not visible")
		}
		switch fstype[0] {
		case "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "configfs":
			if !slices.Contains(strings.Split(fields[5], ","), "ro") {
				return bad("writable")
			}
		}
	}
	return pass("read-only")
}

// tryWrite creates a file in a directory, or opens a file for writing.
func tryWrite(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if errors.Is(err, unix.EISDIR) {
		var f *os.File
		if f, err = os.CreateTemp(path, ".realm-probe-"); err == nil {
			f.Close()
			return os.Remove(f.Name())
		}
		return err
	}
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func writable(path string) result {
	if err := tryWrite(path); err != nil {
		return bad("not writable")
	}
	return pass("writable")
}

func readOnly(path string) result {
	if _, err := os.Lstat(path); err != nil {
		return bad("not there")
	}
	if tryWrite(path) == nil {
		return bad("writable")
	}
	return pass("read-only")
}
