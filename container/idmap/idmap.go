// Package idmap finds out whether a directory can be mounted with other owners,
// and hands out ranges of host ids that no one else has. Both need root.
package idmap

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

// Supported says whether the file system of dir allows idmapped mounts: it makes
// one of dir that is attached nowhere, in a user namespace that ends with it.
func Supported(dir string) (bool, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOSYS):
		return false, nil
	case err != nil:
		return false, contract.Errorf(contract.Internal, "the workspace's mount could not be examined").WithCause(err)
	}
	defer unix.Close(tree)
	namespace, err := userNamespace()
	if err != nil {
		return false, contract.Errorf(contract.Internal, "a user namespace could not be made to examine the workspace's mount").
			WithCause(err).WithHint("run realm doctor")
	}
	defer namespace.Close()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(namespace.Fd())}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
	switch {
	case err == nil:
		return true, nil
	// EINVAL: the file system does not know them; ENOSYS: the kernel does not;
	// EPERM: its superblock belongs to another user namespace.
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
		return false, nil
	}
	return false, contract.Errorf(contract.Internal, "the workspace's mount could not be examined").WithCause(err)
}

// userNamespace returns a user namespace that nothing runs in. Its one process
// is stopped by ptrace before its first instruction and killed at once; the
// descriptor keeps the namespace.
func userNamespace() (*os.File, error) {
	// The tracer of the child is the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	one := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	child, err := os.StartProcess("/proc/self/exe", []string{"userns"}, &os.ProcAttr{
		Env: []string{},
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: one, GidMappings: one,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		_ = child.Kill()
		_, _ = child.Wait()
	}()
	return os.Open("/proc/" + strconv.Itoa(child.Pid) + "/ns/user")
}
