package podman

import (
	"golang.org/x/sys/unix"
)

// oldCalls are those that newer architectures have no more.
func oldCalls() []try {
	return []try{
		{"chmod 0644", unix.SYS_CHMOD, [6]uintptr{str("f"), 0o644}, 0},
		{"chmod 4755", unix.SYS_CHMOD, [6]uintptr{str("f"), 0o4755}, unix.EPERM},
		{"chmod 2755", unix.SYS_CHMOD, [6]uintptr{str("f"), 0o2755}, unix.EPERM},
		{"chmod with noise above", unix.SYS_CHMOD, [6]uintptr{str("f"), 1<<40 | 0o4755}, unix.EPERM},
		{"open create 4755", unix.SYS_OPEN, [6]uintptr{str("p1"), unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM},
		{"open create 0644", unix.SYS_OPEN, [6]uintptr{str("p2"), unix.O_CREAT | unix.O_WRONLY, 0o644}, 0},
		{"open", unix.SYS_OPEN, [6]uintptr{str("f"), unix.O_RDONLY, 0o6777}, 0},
		{"creat 4755", unix.SYS_CREAT, [6]uintptr{str("c1"), 0o4755}, unix.EPERM},
		{"creat 2755", unix.SYS_CREAT, [6]uintptr{str("c2"), 0o2755}, unix.EPERM},
		{"creat 0644", unix.SYS_CREAT, [6]uintptr{str("c3"), 0o644}, 0},
		{"mknod 4755", unix.SYS_MKNOD, [6]uintptr{str("m1"), unix.S_IFREG | 0o4755, 0}, unix.EPERM},
	}
}
