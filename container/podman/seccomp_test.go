package podman

import (
	"encoding/binary"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// try is a system call as a program makes it, and what the filter answers.
type try struct {
	name string
	nr   uintptr
	args [6]uintptr
	want syscall.Errno // 0: it must work
}

const anyErrno = syscall.Errno(0xffff) // it must work, or fail for another reason than the filter

func str(s string) uintptr {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		panic(err)
	}
	kept = append(kept, p)
	return uintptr(unsafe.Pointer(p))
}

var kept []*byte // arguments of tries, which the collector cannot see

// tries is the table of TestFilter. It runs in a directory with the file "f".
func tries() []try {
	at := ^uintptr(99) // AT_FDCWD
	fd, err := unix.Open("f", unix.O_RDWR|unix.O_CREAT, 0o644)
	if err != nil {
		panic(err)
	}
	f := uintptr(fd)
	list := []try{
		{"fchmod 0755", unix.SYS_FCHMOD, [6]uintptr{f, 0o755}, 0},
		{"fchmod 4755", unix.SYS_FCHMOD, [6]uintptr{f, 0o4755}, unix.EPERM},
		{"fchmod 2755", unix.SYS_FCHMOD, [6]uintptr{f, 0o2755}, unix.EPERM},
		{"fchmod 6755", unix.SYS_FCHMOD, [6]uintptr{f, 0o6755}, unix.EPERM},
		{"fchmodat 1755", unix.SYS_FCHMODAT, [6]uintptr{at, str("f"), 0o1755}, anyErrno},
		{"fchmodat 4755", unix.SYS_FCHMODAT, [6]uintptr{at, str("f"), 0o4755}, unix.EPERM},
		{"fchmodat2 4755", unix.SYS_FCHMODAT2, [6]uintptr{at, str("f"), 0o4755, 0}, unix.EPERM},
		{"mknodat 4755", unix.SYS_MKNODAT, [6]uintptr{at, str("n1"), unix.S_IFREG | 0o4755, 0}, unix.EPERM},
		{"mknodat 2755", unix.SYS_MKNODAT, [6]uintptr{at, str("n2"), unix.S_IFREG | 0o2755, 0}, unix.EPERM},
		{"mknodat fifo", unix.SYS_MKNODAT, [6]uintptr{at, str("n3"), unix.S_IFIFO | 0o600, 0}, 0},
		{"mknodat device", unix.SYS_MKNODAT, [6]uintptr{at, str("n4"), unix.S_IFBLK | 0o600, 254 << 8}, unix.EPERM},
		{"openat create 4755", unix.SYS_OPENAT, [6]uintptr{at, str("o1"), unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM},
		{"openat create 2755", unix.SYS_OPENAT, [6]uintptr{at, str("o2"), unix.O_CREAT | unix.O_RDONLY, 0o2755}, unix.EPERM},
		{"openat create 0755", unix.SYS_OPENAT, [6]uintptr{at, str("o3"), unix.O_CREAT | unix.O_WRONLY, 0o755}, 0},
		{"openat noise in mode", unix.SYS_OPENAT, [6]uintptr{at, str("f"), unix.O_RDONLY, 0o6755}, 0},
		{"openat tmpfile 4755", unix.SYS_OPENAT, [6]uintptr{at, str("."), unix.O_TMPFILE | unix.O_RDWR, 0o4755}, unix.EPERM},
		{"openat tmpfile", unix.SYS_OPENAT, [6]uintptr{at, str("."), unix.O_TMPFILE | unix.O_RDWR, 0o600}, anyErrno},
		{"openat2", unix.SYS_OPENAT2, [6]uintptr{at, str("f"), 0, 24}, unix.ENOSYS},
		{"unshare user", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER}, unix.EPERM},
		{"unshare user and mounts", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, unix.EPERM},
		{"unshare files", unix.SYS_UNSHARE, [6]uintptr{unix.CLONE_FILES}, 0},
		{"clone user", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWUSER | uintptr(unix.SIGCHLD)}, unix.EPERM},
		{"clone network", unix.SYS_CLONE, [6]uintptr{unix.CLONE_NEWNET | uintptr(unix.SIGCHLD)}, unix.EPERM},
		{"clone3", unix.SYS_CLONE3, [6]uintptr{0, 0}, unix.ENOSYS},
		{"setns", unix.SYS_SETNS, [6]uintptr{f, 0}, unix.EPERM},
		{"mount", unix.SYS_MOUNT, [6]uintptr{str("t"), str("/tmp"), str("tmpfs")}, unix.EPERM},
		{"umount2", unix.SYS_UMOUNT2, [6]uintptr{str("/tmp"), 0}, unix.EPERM},
		{"fsopen", unix.SYS_FSOPEN, [6]uintptr{str("tmpfs"), 0}, unix.EPERM},
		{"fsmount", unix.SYS_FSMOUNT, [6]uintptr{0, 0, 0}, unix.EPERM},
		{"fsconfig", unix.SYS_FSCONFIG, [6]uintptr{0, 0, 0}, unix.EPERM},
		{"fspick", unix.SYS_FSPICK, [6]uintptr{at, str("/"), 0}, unix.EPERM},
		{"open_tree", unix.SYS_OPEN_TREE, [6]uintptr{at, str("/tmp"), 1}, unix.EPERM},
		{"move_mount", unix.SYS_MOVE_MOUNT, [6]uintptr{at, str("/tmp"), at, str("/run")}, unix.EPERM},
		{"mount_setattr", unix.SYS_MOUNT_SETATTR, [6]uintptr{at, str("/tmp"), 0, 0, 32}, unix.EPERM},
		{"pivot_root", unix.SYS_PIVOT_ROOT, [6]uintptr{str("/"), str("/")}, unix.EPERM},
		{"chroot", unix.SYS_CHROOT, [6]uintptr{str("/tmp")}, unix.EPERM},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1, 0}, unix.ENOSYS},
		{"keyctl", unix.SYS_KEYCTL, [6]uintptr{0, 0xffffffff}, unix.EPERM},
		{"add_key", unix.SYS_ADD_KEY, [6]uintptr{0, 0, 0, 0, 0}, unix.EPERM},
		{"request_key", unix.SYS_REQUEST_KEY, [6]uintptr{0, 0, 0, 0}, unix.EPERM},
		{"bpf", unix.SYS_BPF, [6]uintptr{0, 0, 0}, unix.EPERM},
		{"userfaultfd", unix.SYS_USERFAULTFD, [6]uintptr{0}, unix.EPERM},
		{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [6]uintptr{0, 0, 0, 0, 0}, unix.EPERM},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [6]uintptr{at, 0, 0}, unix.EPERM},
		{"kexec_load", unix.SYS_KEXEC_LOAD, [6]uintptr{0, 0, 0, 0}, unix.EPERM},
		{"init_module", unix.SYS_INIT_MODULE, [6]uintptr{0, 0, 0}, unix.EPERM},
		{"socketpair unix", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_UNIX, unix.SOCK_STREAM, 0, uintptr(unsafe.Pointer(&pair))}, 0},
		{"socketpair tipc", unix.SYS_SOCKETPAIR, [6]uintptr{unix.AF_TIPC, unix.SOCK_SEQPACKET, 0, uintptr(unsafe.Pointer(&pair))}, unix.EAFNOSUPPORT},
		{"socket with noise above", unix.SYS_SOCKET, [6]uintptr{1<<32 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
		{"socket netlink route", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0},
		{"socket netlink netfilter", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, unix.EPROTONOSUPPORT},
		{"socket netlink audit", unix.SYS_SOCKET, [6]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, unix.EPROTONOSUPPORT},
	}
	list = append(list, oldCalls()...)
	for family := uintptr(0); family < 70; family++ {
		want := unix.EAFNOSUPPORT
		switch family {
		case unix.AF_UNIX, unix.AF_INET:
			want = 0
		case unix.AF_INET6:
			want = anyErrno // a kernel may have none
		case unix.AF_NETLINK:
			continue
		}
		list = append(list, try{"socket family", unix.SYS_SOCKET, [6]uintptr{family, unix.SOCK_STREAM, 0}, want})
	}
	return list
}

var pair [2]int32

// filterProbe makes every call of the table and prints those that went wrong.
func filterProbe(args []string) error {
	// A thread that gets away with unshare must not poison the others.
	runtime.LockOSThread()
	if err := os.Chdir(args[0]); err != nil {
		return err
	}
	wrong := []string{}
	for _, c := range tries() {
		pid, _, errno := syscall.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if strings.HasPrefix(c.name, "clone") && errno == 0 && pid == 0 {
			syscall.RawSyscall(unix.SYS_EXIT_GROUP, 99, 0, 0) // the child of a clone that was let through
		}
		if errno != c.want && (c.want != anyErrno || errno == unix.ENOSYS) {
			wrong = append(wrong, c.name+" "+errno.Error())
		}
	}
	return json.NewEncoder(os.Stdout).Encode(wrong)
}

// TestFilter makes every refused call for real, as a program of a session.
func TestFilter(t *testing.T) {
	e := open(t)
	for name, uid := range map[string]uint32{"program": 1000, "pid 1's user": 0} {
		t.Run(name, func(t *testing.T) {
			b := specOf(t, e).start()
			dir := "/tmp"
			if uid == 1000 {
				dir = b.Workspace.Destination
			}
			resp := b.guest.runAs(uid, "filter", dir)
			var wrong []string
			if err := json.Unmarshal([]byte(resp.Output), &wrong); err != nil || resp.Code != 0 {
				t.Fatalf("%+v (%v)", resp, err)
			}
			for _, w := range wrong {
				t.Errorf("%s", w)
			}
			noSetID(t, b.Workspace.Source)
		})
	}
}

// noSetID fails when there is a file below dir that runs as its owner or group.
func noSetID(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestOtherArchitectures runs programs that enter the kernel by another door:
// none may get past the filter.
func TestOtherArchitectures(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the other doors are amd64's")
	}
	e := open(t)
	b := specOf(t, e).start()
	for name, code := range map[string][]byte{
		// mov eax,1; xor ebx,ebx; int 0x80: exit(0) of i386.
		"i386 program": elf32([]byte{0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80}),
		"int 0x80":     elf64([]byte{0xb8, 1, 0, 0, 0, 0x31, 0xdb, 0xcd, 0x80}),
		// mov eax,0x4000003c; xor edi,edi; syscall: exit(0) of x32. When that is
		// no call: mov eax,60; mov edi,42; syscall.
		"x32": elf64([]byte{0xb8, 0x3c, 0, 0, 0x40, 0x31, 0xff, 0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0xbf, 42, 0, 0, 0, 0x0f, 0x05}),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(b.Workspace.Source, strings.ReplaceAll(name, " ", "-"))
			if err := os.WriteFile(file, code, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := exec.Command(file).Run(); err != nil && name != "x32" {
				t.Skipf("this kernel does not run it outside either: %v", err)
			}
			if resp := b.guest.run(file); resp.Code == 0 {
				t.Errorf("it ran: %+v", resp)
			}
		})
	}
}

// elf64 wraps machine code into the smallest program that Linux runs.
func elf64(code []byte) []byte {
	const base, header = 0x400000, 64 + 56
	b := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, header-7)...)
	put := binary.LittleEndian
	put.PutUint16(b[16:], 2)  // an executable
	put.PutUint16(b[18:], 62) // for amd64
	put.PutUint32(b[20:], 1)
	put.PutUint64(b[24:], base+header) // entry
	put.PutUint64(b[32:], 64)          // program headers
	put.PutUint16(b[52:], 64)
	put.PutUint16(b[54:], 56)
	put.PutUint16(b[56:], 1)
	put.PutUint32(b[64:], 1) // load
	put.PutUint32(b[68:], 5) // readable, executable
	put.PutUint64(b[80:], base)
	put.PutUint64(b[88:], base)
	put.PutUint64(b[96:], uint64(header+len(code)))
	put.PutUint64(b[104:], uint64(header+len(code)))
	put.PutUint64(b[112:], 0x1000)
	return append(b, code...)
}

// elf32 is elf64 for i386.
func elf32(code []byte) []byte {
	const base, header = 0x8048000, 52 + 32
	b := append([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1}, make([]byte, header-7)...)
	put := binary.LittleEndian
	put.PutUint16(b[16:], 2)
	put.PutUint16(b[18:], 3) // for i386
	put.PutUint32(b[20:], 1)
	put.PutUint32(b[24:], base+header)
	put.PutUint32(b[28:], 52)
	put.PutUint16(b[40:], 52)
	put.PutUint16(b[42:], 32)
	put.PutUint16(b[44:], 1)
	put.PutUint32(b[52:], 1)
	put.PutUint32(b[60:], base)
	put.PutUint32(b[64:], base)
	put.PutUint32(b[68:], uint32(header+len(code)))
	put.PutUint32(b[72:], uint32(header+len(code)))
	put.PutUint32(b[76:], 5)
	put.PutUint32(b[80:], 0x1000)
	return append(b, code...)
}

// TestProgramsWork runs what sessions are for under the filter.
func TestProgramsWork(t *testing.T) {
	e := open(t)
	b := specOf(t, e).start()
	work := b.Workspace.Destination
	python := `
import os, socket, subprocess, tempfile, threading, multiprocessing
t = threading.Thread(target=lambda: None); t.start(); t.join()
assert subprocess.run(["true"]).returncode == 0
multiprocessing.Lock(); multiprocessing.Queue()
tempfile.TemporaryFile(); os.mkdir("d"); os.chmod("d", 0o700); os.mkfifo("p")
assert socket.getaddrinfo("127.0.0.1", 80)
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
print(os.getuid(), os.getgroups())
`
	for name, argv := range map[string][]string{
		"shell":  {"/bin/sh", "-c", "cd " + work + " && echo a > a && cp -p a b && mv b c && ls -l | cat && kill -0 $$"},
		"python": {"/usr/bin/python3", "-c", "import os; os.chdir('" + work + "')" + python},
		"git": {"/bin/sh", "-c", "cd " + work + " && export HOME=/tmp && mkdir r && cd r && git init -q && git config user.email a@b && git config user.name a" +
			" && echo x > x && git add x && git commit -qm x && git gc -q && git log --oneline"},
		"tar": {"/bin/sh", "-c", "cd " + work + " && mkdir tt && echo x > tt/x && tar cf t.tar tt && rm -r tt && tar xf t.tar && cat tt/x"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(argv[0]); err != nil {
				t.Skip("not on this machine")
			}
			if resp := b.guest.run(argv...); resp.Code != 0 {
				t.Errorf("%+v", resp)
			}
		})
	}
}
