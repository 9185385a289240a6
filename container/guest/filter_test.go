package guest

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A seccomp filter with the rules that container.md asks of the session's
// profile, written here because the tests run without an engine.

// Offsets into struct seccomp_data; arguments are 64 bits, low half first.
const (
	offsetNumber = 0
	offsetArgs   = 16
)

// rule refuses a system call with an error number, when the low half of an
// argument has one of the bits of mask, is none of only, or, when the first
// argument is family, is not 0.
type rule struct {
	call   int
	errno  unix.Errno
	arg    int
	mask   uint32
	only   []uint32
	family uint32
}

const setBits = unix.S_ISUID | unix.S_ISGID

func rules() []rule {
	list := []rule{
		{call: unix.SYS_CLONE3, errno: unix.ENOSYS},
		{call: unix.SYS_OPENAT2, errno: unix.ENOSYS},
		{call: unix.SYS_CLONE, errno: unix.EPERM, mask: unix.CLONE_NEWUSER},
		{call: unix.SYS_UNSHARE, errno: unix.EPERM, mask: unix.CLONE_NEWUSER},
		{call: unix.SYS_FCHMOD, errno: unix.EPERM, arg: 1, mask: setBits},
		{call: unix.SYS_FCHMODAT, errno: unix.EPERM, arg: 2, mask: setBits},
		{call: unix.SYS_FCHMODAT2, errno: unix.EPERM, arg: 2, mask: setBits},
		{call: unix.SYS_OPENAT, errno: unix.EPERM, arg: 3, mask: setBits},
		{call: unix.SYS_MKNODAT, errno: unix.EPERM, arg: 2, mask: setBits},
		{call: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, only: []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}},
		{call: unix.SYS_SOCKET, errno: unix.EAFNOSUPPORT, arg: 2, family: unix.AF_NETLINK},
	}
	for _, call := range []int{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_FSOPEN, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT,
		unix.SYS_IO_URING_SETUP, unix.SYS_KEYCTL, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN,
	} {
		list = append(list, rule{call: call, errno: unix.EPERM})
	}
	if runtime.GOARCH == "amd64" { // calls that arm64 does not have
		list = append(list,
			rule{call: 2, errno: unix.EPERM, arg: 2, mask: setBits},   // open
			rule{call: 85, errno: unix.EPERM, arg: 1, mask: setBits},  // creat
			rule{call: 90, errno: unix.EPERM, arg: 1, mask: setBits},  // chmod
			rule{call: 133, errno: unix.EPERM, arg: 1, mask: setBits}, // mknod
		)
	}
	return list
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(op uint16, k uint32, yes, no int) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | op, K: k, Jt: uint8(yes), Jf: uint8(no)}
}

func ret(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k}
}

func (r rule) code() []unix.SockFilter {
	deny := ret(unix.SECCOMP_RET_ERRNO | uint32(r.errno))
	argument := load(uint32(offsetArgs + 8*r.arg))
	var body []unix.SockFilter
	switch {
	case r.mask != 0:
		body = []unix.SockFilter{argument, jump(unix.BPF_JSET, r.mask, 0, 1), deny}
	case r.only != nil:
		body = append(body, argument)
		for i, v := range r.only {
			body = append(body, jump(unix.BPF_JEQ, v, len(r.only)-i, 0))
		}
		body = append(body, deny)
	case r.family != 0:
		body = []unix.SockFilter{load(offsetArgs), jump(unix.BPF_JEQ, r.family, 0, 3), argument, jump(unix.BPF_JEQ, 0, 1, 0), deny}
	default:
		body = []unix.SockFilter{deny}
	}
	return append([]unix.SockFilter{load(offsetNumber), jump(unix.BPF_JEQ, uint32(r.call), 0, len(body))}, body...)
}

// installFilter installs the filter on this thread; exec carries it over. One
// weakness "rule:NUMBER" leaves out the rule of that call.
func installFilter(c *stageConfig) error {
	var program []unix.SockFilter
	for _, r := range rules() {
		if !c.weak(fmt.Sprintf("rule:%d", r.call)) {
			program = append(program, r.code()...)
		}
	}
	program = append(program, ret(unix.SECCOMP_RET_ALLOW))
	fprog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
