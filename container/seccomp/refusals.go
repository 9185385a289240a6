package seccomp

import (
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// The bits that make a file run as its owner or group. With a workspace that
// root owns, such a file would be root on the host.
const setIDBits = unix.S_ISUID | unix.S_ISGID

// tmpfileBit is O_TMPFILE without O_DIRECTORY, which it always comes with.
const tmpfileBit = unix.O_TMPFILE &^ unix.O_DIRECTORY

// namespaceFlags are the flags of clone and unshare that make a namespace.
var namespaceFlags = []uint64{
	unix.CLONE_NEWNS, unix.CLONE_NEWCGROUP, unix.CLONE_NEWUTS, unix.CLONE_NEWIPC,
	unix.CLONE_NEWUSER, unix.CLONE_NEWPID, unix.CLONE_NEWNET,
}

// lastFamily is the highest address family that has a rule of its own; all
// above it are refused by one comparison.
const lastFamily = 63

// refusals are the rules that replace the library's for the calls they name.
//
// The library of the runtime drops a condition when a call also has a rule
// without one, and gives the default action (ENOSYS) to what no rule matches:
// so each call below has conditions only, and they cover every value. Where two
// arguments decide, the first is the same in all rules and its values exclude
// one another, because a rule that fails at its second argument is not followed
// by the next.
func refusals() []specs.LinuxSyscall {
	var rules []specs.LinuxSyscall
	rules = append(rules, always()...)
	rules = append(rules, namespaces()...)
	rules = append(rules, modes()...)
	rules = append(rules, opens([]string{"open"}, 1)...)
	rules = append(rules, opens([]string{"openat"}, 2)...)
	return append(rules, sockets()...)
}

// always are the calls refused whatever their arguments.
func always() []specs.LinuxSyscall {
	return []specs.LinuxSyscall{
		// Programs fall back to the older call on ENOSYS, where arguments are
		// registers that a filter can read.
		refuse(unix.ENOSYS, []string{
			"clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "openat2",
		}),
		refuse(unix.EPERM, []string{
			"fsconfig", "fsmount", "fsopen", "fspick", "listmount", "mount", "mount_setattr",
			"move_mount", "open_tree", "open_tree_attr", "pivot_root", "statmount", "umount", "umount2",
		}),
		refuse(unix.EPERM, []string{
			"add_key", "bpf", "keyctl", "open_by_handle_at", "perf_event_open", "request_key", "setns", "userfaultfd",
		}),
	}
}

// namespaces lets clone and unshare through without a flag that makes a
// namespace: a user namespace gives all capabilities inside it.
func namespaces() []specs.LinuxSyscall {
	var all uint64
	for _, flag := range namespaceFlags {
		all |= flag
	}
	// In clone the bit of CLONE_NEWTIME belongs to the exit signal.
	rules := []specs.LinuxSyscall{
		allow([]string{"clone"}, masked(0, all, 0)),
		allow([]string{"unshare"}, masked(0, all|unix.CLONE_NEWTIME, 0)),
		refuse(unix.EPERM, []string{"unshare"}, masked(0, unix.CLONE_NEWTIME, unix.CLONE_NEWTIME)),
	}
	for _, flag := range namespaceFlags {
		rules = append(rules, refuse(unix.EPERM, []string{"clone", "unshare"}, masked(0, flag, flag)))
	}
	return rules
}

// modes lets the calls that set a mode through without a set-id bit.
func modes() []specs.LinuxSyscall {
	var rules []specs.LinuxSyscall
	for _, group := range []struct {
		names []string
		mode  uint // index of the argument
	}{
		{[]string{"chmod", "creat", "fchmod", "mknod"}, 1},
		{[]string{"fchmodat", "fchmodat2", "mknodat"}, 2},
	} {
		rules = append(rules,
			allow(group.names, masked(group.mode, setIDBits, 0)),
			refuse(unix.EPERM, group.names, masked(group.mode, unix.S_ISUID, unix.S_ISUID)),
			refuse(unix.EPERM, group.names, masked(group.mode, setIDBits, unix.S_ISGID)),
		)
	}
	return rules
}

// opens lets an open through that makes no file, whose mode is noise, and one
// that makes a file without a set-id bit. The mode follows the flags.
func opens(names []string, flags uint) []specs.LinuxSyscall {
	const making = unix.O_CREAT | tmpfileBit
	mode := flags + 1
	rules := []specs.LinuxSyscall{allow(names, masked(flags, making, 0))}
	for _, made := range []uint64{unix.O_CREAT, tmpfileBit, making} {
		rules = append(rules,
			allow(names, masked(flags, making, made), masked(mode, setIDBits, 0)),
			refuse(unix.EPERM, names, masked(flags, making, made), masked(mode, unix.S_ISUID, unix.S_ISUID)),
			refuse(unix.EPERM, names, masked(flags, making, made), masked(mode, setIDBits, unix.S_ISGID)),
		)
	}
	return rules
}

// sockets lets four address families through, netlink for routes only. Others
// reach past the network namespace (vsock), or are kernel code that nothing in
// a session needs.
func sockets() []specs.LinuxSyscall {
	socket := []string{"socket"}
	rules := []specs.LinuxSyscall{
		allow([]string{"socketpair"}, compared(0, specs.OpEqualTo, unix.AF_UNIX)),
		refuse(unix.EAFNOSUPPORT, []string{"socketpair"}, compared(0, specs.OpNotEqual, unix.AF_UNIX)),
	}
	for family := uint64(0); family <= lastFamily; family++ {
		match := compared(0, specs.OpEqualTo, family)
		switch family {
		case unix.AF_UNIX, unix.AF_INET, unix.AF_INET6:
			rules = append(rules, allow(socket, match))
		case unix.AF_NETLINK:
			rules = append(rules,
				allow(socket, match, compared(2, specs.OpEqualTo, unix.NETLINK_ROUTE)),
				refuse(unix.EPROTONOSUPPORT, socket, match, compared(2, specs.OpNotEqual, unix.NETLINK_ROUTE)))
		default:
			rules = append(rules, refuse(unix.EAFNOSUPPORT, socket, match))
		}
	}
	return append(rules, refuse(unix.EAFNOSUPPORT, socket, compared(0, specs.OpGreaterThan, lastFamily)))
}
