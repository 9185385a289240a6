package guest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageEnv carries the configuration into the stage.
const stageEnv = "REALM_GUEST_TEST_STAGE"

// stageConfig says how the container looks. Each weakness takes one part of
// the isolation away, for the tests that prove that a probe notices.
type stageConfig struct {
	Root, Link, Workspace, Init string

	Cgroup      string // host directory of the cgroup to run in
	CgroupMount string // where to show it below /sys/fs/cgroup; "" for nowhere
	HostNetwork bool
	Weak        []string
}

func (c *stageConfig) weak(what string) bool {
	return slices.Contains(c.Weak, what)
}

// runStage makes the root file system, gives up what a container gives up and
// becomes realm-init. It only returns with an error.
func runStage(encoded string) error {
	runtime.LockOSThread() // capabilities and filters are per thread until exec
	var c stageConfig
	if err := json.Unmarshal([]byte(encoded), &c); err != nil {
		return err
	}
	if c.Cgroup != "" { // wait until the parent has moved us into it
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
	for _, step := range []func(*stageConfig) error{mountRoot, enterRoot, dropPrivileges} {
		if err := step(&c); err != nil {
			return err
		}
	}
	return syscall.Exec("/run/realm/realm-init",
		[]string{"/run/realm/realm-init", "/run/realm/link/" + SocketName},
		[]string{"PATH=/usr/bin:/bin", "GOMAXPROCS=1"})
}

// mounting collects the first error of many mounts.
type mounting struct {
	root string
	err  error
}

func (m *mounting) do(what string, err error) {
	if err != nil && m.err == nil {
		m.err = fmt.Errorf("%s: %w", what, err)
	}
}

func (m *mounting) fs(fstype, target string, flags uintptr, data string) {
	target = filepath.Join(m.root, target)
	m.do("mkdir "+target, os.MkdirAll(target, 0o755))
	m.do("mount "+target, unix.Mount(fstype, target, fstype, flags, data))
}

func (m *mounting) bind(source, target string, readonly bool) {
	target = filepath.Join(m.root, target)
	info, err := os.Stat(source)
	if err != nil {
		m.do("stat", err)
		return
	}
	if info.IsDir() {
		m.do("mkdir", os.MkdirAll(target, 0o755))
	} else if _, err := os.Stat(target); err != nil {
		m.do("create", os.WriteFile(target, nil, 0o644))
	}
	m.do("bind "+source, unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""))
	if readonly {
		m.do("remount "+target, unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|lockedFlags(target), ""))
	}
}

// lockedFlags are the flags of a mount that a remount in a user namespace has
// to repeat.
func lockedFlags(target string) uintptr {
	var st unix.Statfs_t
	if unix.Statfs(target, &st) != nil {
		return 0
	}
	return uintptr(st.Flags) & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME)
}

func mountRoot(c *stageConfig) error {
	m := &mounting{root: c.Root}
	m.do("private", unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	m.fs("tmpfs", "/", 0, "mode=755")
	for _, d := range []string{"/usr", "/etc/alternatives"} {
		if _, err := os.Stat(d); err == nil {
			m.bind(d, d, true)
		}
	}
	for _, d := range []string{"bin", "sbin", "lib", "lib64"} {
		if target, err := os.Readlink("/" + d); err == nil {
			m.do("symlink", os.Symlink(target, filepath.Join(c.Root, d)))
		} else if _, err := os.Stat("/" + d); err == nil {
			m.bind("/"+d, d, true)
		}
	}
	m.do("passwd", os.WriteFile(filepath.Join(c.Root, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\nu:x:1000:1000::/home/u:/bin/sh\n"), 0o644))
	m.do("resolv.conf", os.WriteFile(filepath.Join(c.Root, "etc/resolv.conf"), nil, 0o644))
	m.fs("proc", "/proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.fs("tmpfs", "/dev", unix.MS_NOSUID, "mode=755")
	for _, d := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		m.bind("/dev/"+d, "dev/"+d, false)
	}
	m.fs("devpts", "/dev/pts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620,gid=5")
	for link, target := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		m.do("symlink", os.Symlink(target, filepath.Join(c.Root, "dev", link)))
	}
	for _, d := range []string{"/tmp", "/run", "/home", "/var/tmp", "/dev/shm"} {
		m.fs("tmpfs", d, unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m")
	}
	m.bind(c.Workspace, "/workspace", false)
	m.do("mkdir", os.MkdirAll(filepath.Join(c.Root, "run/realm"), 0o755))
	m.bind(c.Init, "/run/realm/realm-init", true)
	m.bind(c.Link, "/run/realm/link", true)
	mountSys(m, c)
	maskProc(m, c)
	return m.err
}

func mountSys(m *mounting, c *stageConfig) {
	if c.HostNetwork { // a sysfs needs a network namespace of our own
		m.do("mkdir", os.MkdirAll(filepath.Join(c.Root, "sys"), 0o755))
		m.fs("tmpfs", "/sys", unix.MS_RDONLY, "")
		return
	}
	m.fs("sysfs", "/sys", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.do("tmpfs", unix.Mount("tmpfs", filepath.Join(c.Root, "sys/fs/cgroup"), "tmpfs", 0, "mode=755"))
	if !c.weak("masks") {
		m.do("mask", unix.Mount("tmpfs", filepath.Join(c.Root, "sys/firmware"), "tmpfs", unix.MS_RDONLY, ""))
	}
	if c.CgroupMount != "" {
		m.bind(c.Cgroup, "/sys/fs/cgroup/"+c.CgroupMount, true)
	}
	if !c.weak("sys") {
		m.do("remount sys", unix.Mount("", filepath.Join(c.Root, "sys"), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, ""))
		m.do("remount cgroup", unix.Mount("", filepath.Join(c.Root, "sys/fs/cgroup"), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_RELATIME, ""))
	}
}

// maskProc hides what a container engine hides.
func maskProc(m *mounting, c *stageConfig) {
	if !c.weak("masks") {
		for _, f := range []string{"kcore", "keys", "timer_list", "latency_stats", "sched_debug"} {
			if _, err := os.Stat("/proc/" + f); err == nil {
				m.bind("/dev/null", "/proc/"+f, false)
			}
		}
		for _, d := range []string{"scsi", "acpi"} {
			if _, err := os.Stat(filepath.Join(c.Root, "proc", d)); err == nil {
				m.do("mask", unix.Mount("tmpfs", filepath.Join(c.Root, "proc", d), "tmpfs", unix.MS_RDONLY, ""))
			}
		}
	}
	if !c.weak("proc") {
		for _, d := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs"} {
			if _, err := os.Stat(filepath.Join(c.Root, "proc", d)); err == nil {
				m.bind(filepath.Join(c.Root, "proc", d), "/proc/"+d, true)
			}
		}
	}
}

func enterRoot(c *stageConfig) error {
	if err := os.Chdir(c.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if c.weak("rootfs") {
		return nil
	}
	return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_RELATIME, "")
}

// dropPrivileges leaves SETUID, SETGID and KILL in the bounding set: the exec
// of uid 0 gets exactly these.
func dropPrivileges(c *stageConfig) error {
	keep := map[uintptr]bool{unix.CAP_SETUID: true, unix.CAP_SETGID: true, unix.CAP_KILL: true}
	if c.weak("capabilities") {
		keep[unix.CAP_NET_ADMIN] = true
	}
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		if !keep[capability] {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0); err != nil && err != unix.EINVAL {
				return err
			}
		}
	}
	if !c.weak("no_new_privs") {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	for resource, limit := range map[int]uint64{unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_CORE: 0} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	// What the test process itself inherited is no business of the container.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	if c.weak("descriptor") {
		if _, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
			return err
		}
	}
	if c.weak("seccomp") {
		return nil
	}
	return installFilter(c)
}
