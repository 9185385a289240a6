package seccomp

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestProfileGolden(t *testing.T) {
	for arch := range architectures {
		profile, err := Profile(arch)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.MarshalIndent(profile, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", arch+".json")
		if *update {
			if err := os.WriteFile(golden, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs from its golden file (-want +got):\n%s", arch, diff)
		}
	}
}

func TestProfileUnknownArchitecture(t *testing.T) {
	if _, err := Profile("mips"); contract.CodeOf(err) != contract.IsolationUnproven {
		t.Fatalf("got %v, want ISOLATION_UNPROVEN", err)
	}
}

// matches evaluates the conditions of a rule as the kernel filter does.
func matches(rule specs.LinuxSyscall, args []uint64) bool {
	for _, a := range rule.Args {
		got := args[a.Index]
		ok := map[specs.LinuxSeccompOperator]bool{
			specs.OpEqualTo:     got == a.Value,
			specs.OpNotEqual:    got != a.Value,
			specs.OpGreaterThan: got > a.Value,
			specs.OpMaskedEqual: got&a.Value == a.ValueTwo,
		}[a.Op]
		if !ok {
			return false
		}
	}
	return true
}

const allowed = syscall.Errno(0)

// decide returns what the profile answers, and how many rules said so.
func decide(t *testing.T, profile *specs.LinuxSeccomp, name string, args []uint64) (syscall.Errno, int) {
	t.Helper()
	answer, hits := syscall.Errno(*profile.DefaultErrnoRet), 0
	for _, rule := range profile.Syscalls {
		if !slices.Contains(rule.Names, name) || !matches(rule, args) {
			continue
		}
		hits++
		switch rule.Action {
		case specs.ActAllow:
			answer = allowed
		case specs.ActErrno:
			answer = syscall.Errno(*rule.ErrnoRet)
		default:
			t.Fatalf("%s has the action %s", name, rule.Action)
		}
	}
	return answer, hits
}

func TestDecisions(t *testing.T) {
	const at = unix.AT_FDCWD & 0xffffffff
	tests := []struct {
		call string
		args []uint64
		want syscall.Errno
	}{
		{"chmod", []uint64{1, 0o755}, allowed},
		{"chmod", []uint64{1, 0o1777}, allowed},
		{"chmod", []uint64{1, 0o4755}, unix.EPERM},
		{"chmod", []uint64{1, 0o2755}, unix.EPERM},
		{"chmod", []uint64{1, 0o6755}, unix.EPERM},
		{"chmod", []uint64{1, 0xffff_ffff_0000_0000 | 0o4755}, unix.EPERM},
		{"chmod", []uint64{1, unix.S_IFREG | 0o4755}, unix.EPERM},
		{"fchmod", []uint64{3, 0o644}, allowed},
		{"fchmod", []uint64{3, 0o4644}, unix.EPERM},
		{"fchmodat", []uint64{at, 1, 0o700}, allowed},
		{"fchmodat", []uint64{at, 1, 0o2700}, unix.EPERM},
		{"fchmodat2", []uint64{at, 1, 0o4700, 0}, unix.EPERM},
		{"creat", []uint64{1, 0o644}, allowed},
		{"creat", []uint64{1, 0o4755}, unix.EPERM},
		{"mknod", []uint64{1, unix.S_IFREG | 0o644, 0}, allowed},
		{"mknod", []uint64{1, unix.S_IFREG | 0o4755, 0}, unix.EPERM},
		{"mknodat", []uint64{at, 1, unix.S_IFIFO | 0o600, 0}, allowed},
		{"mknodat", []uint64{at, 1, unix.S_IFREG | 0o2755, 0}, unix.EPERM},
		{"open", []uint64{1, unix.O_RDONLY, 0o6755}, allowed}, // the mode is noise
		{"open", []uint64{1, unix.O_CREAT | unix.O_WRONLY, 0o644}, allowed},
		{"open", []uint64{1, unix.O_CREAT | unix.O_WRONLY, 0o4755}, unix.EPERM},
		{"openat", []uint64{at, 1, unix.O_CREAT | unix.O_EXCL, 0o2755}, unix.EPERM},
		{"openat", []uint64{at, 1, unix.O_CREAT | unix.O_TMPFILE, 0o4755}, unix.EPERM},
		{"openat", []uint64{at, 1, unix.O_TMPFILE | unix.O_RDWR, 0o600}, allowed},
		{"openat", []uint64{at, 1, unix.O_TMPFILE | unix.O_RDWR, 0o4700}, unix.EPERM},
		{"openat", []uint64{at, 1, unix.O_DIRECTORY, 0}, allowed},
		{"openat2", []uint64{at, 1, 1, 24}, unix.ENOSYS},
		{"clone", []uint64{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, allowed},
		{"clone", []uint64{unix.CLONE_THREAD | unix.CLONE_VM}, allowed},
		{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, unix.EPERM},
		{"clone", []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNET}, unix.EPERM},
		{"clone", []uint64{unix.CLONE_NEWPID}, unix.EPERM},
		{"clone3", []uint64{1, 88}, unix.ENOSYS},
		{"unshare", []uint64{unix.CLONE_FILES | unix.CLONE_FS}, allowed},
		{"unshare", []uint64{unix.CLONE_NEWUSER}, unix.EPERM},
		{"unshare", []uint64{unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, unix.EPERM},
		{"unshare", []uint64{unix.CLONE_NEWTIME}, unix.EPERM},
		{"setns", []uint64{3, 0}, unix.EPERM},
		{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allowed},
		{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM, 0}, allowed},
		{"socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM, 0}, allowed},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allowed},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, unix.EPROTONOSUPPORT},
		{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, unix.EPROTONOSUPPORT},
		{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
		{"socket", []uint64{1<<32 | unix.AF_VSOCK, unix.SOCK_STREAM, 0}, unix.EAFNOSUPPORT},
		{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0}, unix.EAFNOSUPPORT},
		{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, unix.EAFNOSUPPORT},
		{"socket", []uint64{unix.AF_TIPC, unix.SOCK_SEQPACKET, 0}, unix.EAFNOSUPPORT},
		{"socket", []uint64{unix.AF_UNSPEC, 0, 0}, unix.EAFNOSUPPORT},
		{"socket", []uint64{200, 0, 0}, unix.EAFNOSUPPORT},
		{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0, 0}, allowed},
		{"socketpair", []uint64{unix.AF_TIPC, unix.SOCK_SEQPACKET, 0, 0}, unix.EAFNOSUPPORT},
		{"mount", []uint64{0, 0, 0, 0, 0}, unix.EPERM},
		{"open_tree", []uint64{0, 0, 0}, unix.EPERM},
		{"io_uring_setup", []uint64{0, 0}, unix.ENOSYS},
		{"keyctl", []uint64{0, 0, 0, 0, 0}, unix.EPERM},
		{"bpf", []uint64{0, 0, 0}, unix.EPERM},
		{"userfaultfd", []uint64{0}, unix.EPERM},
		{"perf_event_open", []uint64{0, 0, 0, 0, 0}, unix.EPERM},
		{"chroot", []uint64{0}, unix.EPERM},
		{"ptrace", []uint64{0, 0, 0, 0}, allowed},
		{"execve", []uint64{0, 0, 0}, allowed},
		{"fchownat", []uint64{0, 0, 0, 0, 0}, allowed},
		{"no_such_call", nil, unix.ENOSYS},
	}
	for arch := range architectures {
		profile, err := Profile(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range tests {
			got, hits := decide(t, profile, tt.call, tt.args)
			if got != tt.want {
				t.Errorf("%s: %s%#o: got %v, want %v", arch, tt.call, tt.args, got, tt.want)
			}
			if tt.call == "no_such_call" {
				continue
			}
			conflict := hits == 0 || hits > 1 && got == allowed
			if conflict {
				t.Errorf("%s: %s%#o is decided by %d rules", arch, tt.call, tt.args, hits)
			}
		}
	}
}

// TestRulesAreConditional guards the reason for refusals' form: one rule without
// a condition would undo all conditions of the same call.
func TestRulesAreConditional(t *testing.T) {
	profile, err := Profile("amd64")
	if err != nil {
		t.Fatal(err)
	}
	conditional, plain := map[string]bool{}, map[string]int{}
	for _, rule := range profile.Syscalls {
		for _, name := range rule.Names {
			if len(rule.Args) > 0 {
				conditional[name] = true
			} else {
				plain[name]++
			}
		}
	}
	for name, n := range plain {
		if conditional[name] || n > 1 {
			t.Errorf("%s has a rule without a condition beside others", name)
		}
	}
}

// FuzzEveryCallIsDecided checks that the conditions of each call cover every
// value, and that no set-id bit passes with any other bit around it.
func FuzzEveryCallIsDecided(f *testing.F) {
	f.Add(uint64(0), uint64(0o4755), uint64(unix.O_CREAT), uint64(0o2000))
	f.Add(uint64(unix.CLONE_NEWUSER), uint64(unix.O_TMPFILE), uint64(0o4000), uint64(1))
	profile, err := Profile("amd64")
	if err != nil {
		f.Fatal(err)
	}
	mode := map[string]int{"chmod": 1, "fchmod": 1, "creat": 1, "mknod": 1, "fchmodat": 2, "fchmodat2": 2, "mknodat": 2}
	f.Fuzz(func(t *testing.T, a, b, c, d uint64) {
		args := []uint64{a, b, c, d, 0, 0}
		for _, name := range []string{
			"chmod", "fchmod", "creat", "mknod", "fchmodat", "fchmodat2", "mknodat", "open", "openat",
			"clone", "unshare", "socket", "socketpair",
		} {
			got, hits := decide(t, profile, name, args)
			if hits == 0 {
				t.Errorf("no rule decides %s%#x", name, args)
			}
			if i, ok := mode[name]; ok && (got == allowed) == (args[i]&setIDBits != 0) {
				t.Errorf("%s with the mode %#o: %v", name, args[i], got)
			}
		}
	})
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seccomp.json")
	if err := WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("the file is not the profile")
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left %d entries, want the file alone (%v)", len(entries), err)
	}
	if err := WriteFile(filepath.Join(path, "x")); contract.CodeOf(err) != contract.Internal {
		t.Errorf("got %v, want INTERNAL", err)
	}
}
