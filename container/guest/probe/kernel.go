package probe

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

func (r *report) kernel(m *wire.ProbeRequest) {
	r.add(wire.ProbeUserNamespace, worst(cloneUserNamespace(), unshareUserNamespace()))
	r.setuid(append(m.Writable[:len(m.Writable):len(m.Writable)], "/tmp"))
	// Where this is allowed, it changes nothing.
	r.add(wire.ProbeMount, refused(unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")))
	r.add(wire.ProbeMountAPI, worst(fsopen(), openTree()))
	r.add(wire.ProbeClone3, clone3())
	r.add(wire.ProbeOpenat2, openat2())
	r.add(wire.ProbeIOUring, ioUring())
	r.add(wire.ProbeKeyctl, keyctl())
	r.add(wire.ProbeBPF, bpf())
	r.add(wire.ProbeUserfaultfd, opened(unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1, 0, 0)))
	r.add(wire.ProbePerfEvent, perfEvent())
	r.add(wire.ProbePtraceInit, ptraceInit())
	r.add(wire.ProbeSignalInit, refused(unix.Kill(1, 0)))
	r.add(wire.ProbeInitPrivate, initPrivate())
}

// opened judges a system call that returns a descriptor.
func opened(fd, _ uintptr, errno unix.Errno) result {
	if errno == 0 {
		unix.Close(int(fd))
		return bad("allowed")
	}
	return refused(errno)
}

// cloneUserNamespace starts a process in a new user namespace. Its program is
// one that no file system has, with an error of its own: seeing that one means
// that the namespace was made.
func cloneUserNamespace() result {
	pid, err := syscall.ForkExec("/dev/null/none", []string{"none"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER},
	})
	if err == nil {
		_, _ = unix.Wait4(pid, nil, 0, nil)
		return bad("allowed")
	}
	return refusedWith(err, unix.EPERM, unix.ENOSYS, unix.ENOSPC, unix.EACCES)
}

// unshareUserNamespace asks for the call itself to be refused: a process with
// threads gets EINVAL, which another program would not.
func unshareUserNamespace() result {
	return refusedWith(unix.Unshare(unix.CLONE_NEWUSER), unix.EPERM, unix.ENOSYS, unix.ENOSPC)
}

const (
	setuidMode = unix.S_ISUID | 0o755
	setgidMode = unix.S_ISGID | 0o755
)

// setuid tries every way to make a setuid or setgid file, in the first of dirs
// that takes a file at all.
func (r *report) setuid(dirs []string) {
	f := newScratch(dirs)
	if f == nil {
		for _, name := range []string{wire.ProbeSetuidChmod, wire.ProbeSetuidOpen, wire.ProbeSetuidMknod, wire.ProbeDeviceNode} {
			r.add(name, pass("no writable directory"))
		}
		return
	}
	defer f.remove()
	r.add(wire.ProbeSetuidChmod, f.chmods())
	r.add(wire.ProbeSetuidOpen, f.makes(func(path string, mode uint32) error {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}))
	r.add(wire.ProbeSetuidMknod, f.makes(func(path string, mode uint32) error {
		return unix.Mknod(path, unix.S_IFREG|mode, 0)
	}))
	r.add(wire.ProbeDeviceNode, worst(
		f.device(unix.S_IFBLK, unix.Mkdev(8, 0)),
		f.device(unix.S_IFCHR, unix.Mkdev(1, 1)),
	))
}

// scratch is a file in a directory where programs may write.
type scratch struct{ path string }

// newScratch makes one under a name that no other process has.
func newScratch(dirs []string) *scratch {
	for _, dir := range dirs {
		f, err := os.CreateTemp(dir, ".realm-probe-")
		if err == nil {
			f.Close()
			return &scratch{f.Name()}
		}
	}
	return nil
}

func (f *scratch) remove() { _ = unix.Unlink(f.path) }

// has says whether path has one of the bits that must not be.
func has(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0
}

func (f *scratch) chmods() result {
	var all []result
	for _, mode := range []uint32{setuidMode, setgidMode} {
		for _, chmod := range []func() error{
			func() error { return unix.Chmod(f.path, mode) },
			func() error { return unix.Fchmodat(unix.AT_FDCWD, f.path, mode, 0) },
			func() error { return fchmod(f.path, mode) },
			func() error { return fchmodat2(f.path, mode) },
		} {
			all = append(all, judge(chmod(), f.path))
			_ = unix.Chmod(f.path, 0o600)
		}
	}
	return worst(all...)
}

// judge passes when the call was refused, or succeeded without the bits.
func judge(err error, path string) result {
	if err == nil && !has(path) {
		return pass("without the bits")
	}
	return refused(err)
}

func fchmod(path string, mode uint32) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fchmod(fd, mode)
}

func fchmodat2(path string, mode uint32) error {
	p, err := unix.BytePtrFromString(path)
	if err != nil {
		return err
	}
	at := unix.AT_FDCWD
	_, _, errno := unix.Syscall6(unix.SYS_FCHMODAT2, uintptr(at), uintptr(unsafe.Pointer(p)), uintptr(mode), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// makes tries to make a file with the bits from the start.
func (f *scratch) makes(create func(path string, mode uint32) error) result {
	var all []result
	for _, mode := range []uint32{setuidMode, setgidMode} {
		path := f.path + "s"
		all = append(all, judge(create(path, mode), path))
		_ = unix.Unlink(path)
	}
	return worst(all...)
}

func (f *scratch) device(kind uint32, number uint64) result {
	path := f.path + "d"
	err := unix.Mknod(path, kind|0o600, int(number))
	if err == nil {
		_ = unix.Unlink(path)
	}
	return refused(err)
}

func fsopen() result {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return refused(err)
}

func openTree() result {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return refused(err)
}

// clone3 and openat2 take a struct and its size; with none the kernel answers
// EINVAL if the call is there at all.
func clone3() result {
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
	return refusedWith(errno, unix.ENOSYS, unix.EPERM)
}

func openat2() result {
	path, how := []byte("/\x00"), [3]uint64{}
	at := unix.AT_FDCWD
	_, _, errno := unix.RawSyscall6(unix.SYS_OPENAT2, uintptr(at), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), 0, 0, 0)
	return refusedWith(errno, unix.ENOSYS, unix.EPERM)
}

func ioUring() result {
	var params [120]byte // struct io_uring_params
	return opened(unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0))
}

func keyctl() result {
	_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	return refusedWith(err, unix.EPERM, unix.ENOSYS, unix.EACCES)
}

func bpf() result {
	// BPF_MAP_CREATE of a one-element array.
	attr := [18]uint32{2, 4, 8, 1}
	return opened(unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr)))
}

func perfEvent() result {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
	}
	fd, err := unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err == nil {
		unix.Close(fd)
	}
	return refused(err)
}

// ptraceInit seizes init, which would not stop it.
func ptraceInit() result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 1, 0, 0, 0, 0)
	if errno != 0 {
		return refused(errno)
	}
	_ = unix.PtraceDetach(1)
	return bad("allowed")
}

func initPrivate() result {
	var all []result
	for _, name := range []string{"environ", "mem", "maps", "fd", "task/1/mem"} {
		fd, err := unix.Open("/proc/1/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		all = append(all, refused(err))
	}
	var buf [256]byte
	for _, name := range []string{"root", "cwd", "exe"} {
		_, err := unix.Readlink("/proc/1/"+name, buf[:])
		all = append(all, refused(err))
	}
	return worst(all...)
}
