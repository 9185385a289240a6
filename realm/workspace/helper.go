package workspace

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// HelperArg is the first argument with which realm runs itself to bind
// something in a container. The program's main passes the rest to HelperMain.
const HelperArg = "_bind"

// bindJob is one bind inside a container: src over dst. Both are names there.
type bindJob struct {
	pid      int
	userns   bool // join the user namespace first: who is not root has the capabilities only there
	write    bool
	src, dst string
}

func (j bindJob) args() []string {
	return []string{HelperArg, strconv.Itoa(j.pid), strconv.FormatBool(j.userns), strconv.FormatBool(j.write), j.src, j.dst}
}

// HelperMain is the helper process. It prints one line of what went wrong and
// returns the exit code.
func HelperMain(args []string) int {
	if len(args) != 5 {
		fmt.Fprintln(os.Stderr, "not for use by hand")
		return 2
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid <= 0 {
		fmt.Fprintln(os.Stderr, "not for use by hand")
		return 2
	}
	job := bindJob{pid: pid, userns: args[1] == "true", write: args[2] == "true", src: args[3], dst: args[4]}
	if err := bindIn(job); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// The steps of the child, for its report.
const (
	stepUser = iota + 1
	stepMount
	stepSource
	stepTarget
	stepClone
	stepAttr
	stepMove
)

var stepNames = map[uint32]string{
	stepUser: "joining the user namespace", stepMount: "joining the mount namespace",
	stepSource: "finding the source", stepTarget: "finding the target",
	stepClone: "copying the mount", stepAttr: "setting its flags", stepMove: "attaching it",
}

// childArgs is everything that the child needs, prepared before it exists.
type childArgs struct {
	userFD, mountFD, reportFD uintptr
	src, dst, empty           *byte
	how                       unix.OpenHow
	attr                      unix.MountAttr
	report                    [2]uint32
}

// bindIn binds in the container of job.pid. A process with more than one
// thread, as every Go program is, cannot join a user namespace, so a child that
// is forked without the runtime makes the system calls.
func bindIn(job bindJob) error {
	a, cleanup, err := prepare(job)
	if err != nil {
		return err
	}
	defer cleanup()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	a.reportFD = write.Fd()
	child, err := fork(a)
	write.Close()
	if err != nil {
		return fmt.Errorf("starting the child: %w", err)
	}
	var report [8]byte
	n, _ := read.Read(report[:])
	var ws unix.WaitStatus
	for {
		if _, err = unix.Wait4(child, &ws, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err == nil && ws.Exited() && ws.ExitStatus() == 0 {
		return nil
	}
	if n == len(report) {
		r := (*[2]uint32)(unsafe.Pointer(&report))
		return fmt.Errorf("%s: %w", stepNames[r[0]], unix.Errno(r[1]))
	}
	return fmt.Errorf("the child ended without a report")
}

func prepare(job bindJob) (*childArgs, func(), error) {
	ns := fmt.Sprintf("/proc/%d/ns/", job.pid)
	mnt, err := os.Open(ns + "mnt")
	if err != nil {
		return nil, nil, err
	}
	cleanup := func() { mnt.Close() }
	a := &childArgs{mountFD: mnt.Fd(), userFD: ^uintptr(0)}
	if job.userns {
		user, err := os.Open(ns + "user")
		if err != nil {
			cleanup()
			return nil, nil, err
		}
		cleanup = func() { mnt.Close(); user.Close() }
		a.userFD = user.Fd()
	}
	for s, to := range map[string]**byte{job.src: &a.src, job.dst: &a.dst, "": &a.empty} {
		b, err := unix.BytePtrFromString(s)
		if err != nil {
			cleanup()
			return nil, nil, err
		}
		*to = b
	}
	if job.src == job.dst {
		a.src = a.dst
	}
	// No link anywhere in the names: every component is what the plan says.
	a.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	a.attr = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if !job.write {
		a.attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	return a, cleanup, nil
}

// fork starts the child with all signals blocked: it must never run a handler of
// the Go runtime, of which it has one thread only.
func fork(a *childArgs) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, old unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &old); err != nil {
		return 0, err
	}
	pid, errno := forkChild(a)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); err != nil {
		return 0, err
	}
	if errno != 0 {
		return 0, errno
	}
	return int(pid), nil
}

// forkChild is the child too. In it nothing of the Go runtime may be used: no
// allocation, no stack growth, only raw system calls.
//
//go:noinline
//go:norace
//go:nosplit
func forkChild(a *childArgs) (uintptr, unix.Errno) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	a.report[0], errno = childBind(a)
	code := uintptr(0)
	if errno != 0 {
		code = 1
		a.report[1] = uint32(errno)
		unix.RawSyscall(unix.SYS_WRITE, a.reportFD, uintptr(unsafe.Pointer(&a.report)), unsafe.Sizeof(a.report))
	}
	for {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}

//go:noinline
//go:norace
//go:nosplit
func childBind(a *childArgs) (step uint32, errno unix.Errno) {
	if a.userFD != ^uintptr(0) {
		if _, _, errno = unix.RawSyscall(unix.SYS_SETNS, a.userFD, unix.CLONE_NEWUSER, 0); errno != 0 {
			return stepUser, errno
		}
	}
	if _, _, errno = unix.RawSyscall(unix.SYS_SETNS, a.mountFD, unix.CLONE_NEWNS, 0); errno != 0 {
		return stepMount, errno
	}
	cwd := unix.AT_FDCWD
	how, size := uintptr(unsafe.Pointer(&a.how)), unsafe.Sizeof(a.how)
	src, _, errno := unix.RawSyscall6(unix.SYS_OPENAT2, uintptr(cwd), uintptr(unsafe.Pointer(a.src)), how, size, 0, 0)
	if errno != 0 {
		return stepSource, errno
	}
	dst, _, errno := unix.RawSyscall6(unix.SYS_OPENAT2, uintptr(cwd), uintptr(unsafe.Pointer(a.dst)), how, size, 0, 0)
	if errno != 0 {
		return stepTarget, errno
	}
	empty := uintptr(unsafe.Pointer(a.empty))
	tree, _, errno := unix.RawSyscall(unix.SYS_OPEN_TREE, src, empty, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if errno != 0 {
		return stepClone, errno
	}
	_, _, errno = unix.RawSyscall6(unix.SYS_MOUNT_SETATTR, tree, empty, unix.AT_EMPTY_PATH, uintptr(unsafe.Pointer(&a.attr)), unsafe.Sizeof(a.attr), 0)
	if errno != 0 {
		return stepAttr, errno
	}
	_, _, errno = unix.RawSyscall6(unix.SYS_MOVE_MOUNT, tree, empty, dst, empty, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH, 0)
	return stepMove, errno
}
