// Package seccomp makes the system call filter of every session: the default
// profile of the container libraries, with the ways out of a sandbox that it
// leaves open taken away.
//
// Only the native architecture is in the profile. A program of a compatibility
// architecture (i386, x32, 32-bit arm) is killed by the kernel: those multiplex
// calls behind pointers (socketcall), where no filter can look.
package seccomp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"github.com/opencontainers/runtime-spec/specs-go"
	library "go.podman.io/common/pkg/seccomp"
	"realm.dev/contract"
)

// architectures maps GOARCH to the one architecture of the profile.
var architectures = map[string]specs.Arch{
	"amd64": specs.ArchX86_64,
	"arm64": specs.ArchAARCH64,
}

// Profile returns the filter for programs of goarch.
func Profile(goarch string) (*specs.LinuxSeccomp, error) {
	arch, ok := architectures[goarch]
	if !ok {
		return nil, contract.Errorf(contract.IsolationUnproven, "there is no system call filter for this architecture")
	}
	base := library.DefaultProfile()
	out := &specs.LinuxSeccomp{
		DefaultAction:   specs.LinuxSeccompAction(base.DefaultAction),
		DefaultErrnoRet: base.DefaultErrnoRet,
		Architectures:   []specs.Arch{arch},
	}
	ours := refusals()
	for _, call := range base.Syscalls {
		if applies(call, goarch) {
			out.Syscalls = append(out.Syscalls, without(call, ours)...)
		}
	}
	out.Syscalls = append(out.Syscalls, ours...)
	return out, nil
}

// applies says whether a conditional rule of the library holds for goarch and a
// container without the capabilities that the library asks about.
func applies(call *library.Syscall, goarch string) bool {
	if len(call.Includes.Caps) > 0 || slices.Contains(call.Excludes.Arches, goarch) {
		return false
	}
	return len(call.Includes.Arches) == 0 || slices.Contains(call.Includes.Arches, goarch)
}

// without converts a rule of the library, leaving out the calls that ours decide.
func without(call *library.Syscall, ours []specs.LinuxSyscall) []specs.LinuxSyscall {
	var names []string
	for _, name := range call.Names {
		if !slices.ContainsFunc(ours, func(o specs.LinuxSyscall) bool { return slices.Contains(o.Names, name) }) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	out := specs.LinuxSyscall{Names: names, Action: specs.LinuxSeccompAction(call.Action), ErrnoRet: call.ErrnoRet}
	for _, arg := range call.Args {
		out.Args = append(out.Args, specs.LinuxSeccompArg{
			Index: arg.Index, Value: arg.Value, ValueTwo: arg.ValueTwo, Op: specs.LinuxSeccompOperator(arg.Op),
		})
	}
	return []specs.LinuxSyscall{out}
}

// JSON returns the profile of this machine's architecture, as the file that
// container engines read.
func JSON() ([]byte, error) {
	profile, err := Profile(runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(profile, "", "\t")
}

// WriteFile puts the profile at path, readable by all and complete or absent.
func WriteFile(path string) error {
	data, err := JSON()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".seccomp-*")
	if err != nil {
		return contract.Errorf(contract.Internal, "the system call filter could not be written").WithCause(err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Chmod(0o644)
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return contract.Errorf(contract.Internal, "the system call filter could not be written").WithCause(err)
	}
	return nil
}

func allow(names []string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: names, Action: specs.ActAllow, Args: args}
}

func refuse(errno syscall.Errno, names []string, args ...specs.LinuxSeccompArg) specs.LinuxSyscall {
	ret := uint(errno)
	return specs.LinuxSyscall{Names: names, Action: specs.ActErrno, ErrnoRet: &ret, Args: args}
}

// masked matches when the bits of mask in argument index have the value want.
func masked(index uint, mask, want uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: mask, ValueTwo: want, Op: specs.OpMaskedEqual}
}

func compared(index uint, op specs.LinuxSeccompOperator, value uint64) specs.LinuxSeccompArg {
	return specs.LinuxSeccompArg{Index: index, Value: value, Op: op}
}
