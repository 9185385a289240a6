package podman

import (
	"slices"

	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"realm.dev/container"
	"realm.dev/contract"
)

// Names of the limits that a caller may do without (Limits.AllowUnenforced).
const (
	limitMemory = "memory"
	limitPids   = "pids"
)

// enforceable refuses a spec whose memory nothing on this host would bound.
func enforceable(s *container.Spec, f *facts) error {
	if f.enforces("memory") || slices.Contains(s.Limits.AllowUnenforced, limitMemory) {
		return nil
	}
	err := contract.Errorf(contract.IsolationUnproven, "the memory limit cannot be enforced: %s", missing("memory", f))
	return err.WithHint("run realm doctor; --allow-unenforced memory starts the session without it")
}

// missing names what a controller needs and does not have.
func missing(controller string, f *facts) string {
	switch {
	case f.Rootless && f.CgroupVersion == "v1":
		return "rootless Podman has no limits on cgroup v1"
	case f.Rootless:
		return "the cgroup controller " + controller + " is not delegated to this user"
	}
	return "the kernel has no cgroup controller " + controller
}

// resources sets each limit where its controller is there.
//
// RLIMIT_NPROC is not among the limits, because a runtime sets those before it
// makes the user namespace, and the kernel then holds all processes of the host
// user against the number (measured: a session of a user with 30 threads got 15
// of 60). See boundProcesses.
func resources(s *container.Spec, f *facts) specgen.ContainerResourceConfig {
	l := s.Limits
	r := &specs.LinuxResources{}
	if f.enforces("memory") {
		r.Memory = &specs.LinuxMemory{Limit: ptr(l.MemoryBytes), Swap: ptr(l.MemoryBytes)}
	}
	if f.enforces("cpu") {
		r.CPU = &specs.LinuxCPU{Quota: ptr(cpuQuota(l.CPUs)), Period: ptr(uint64(cpuPeriod))}
	}
	// With a zero limit Podman would set one of its own.
	r.Pids = &specs.LinuxPids{Limit: l.Pids}
	return specgen.ContainerResourceConfig{
		ResourceLimits: r,
		Rlimits: []specs.POSIXRlimit{
			rlimit("CORE", 0), rlimit("NOFILE", openFiles(l.OpenFiles, f)),
		},
	}
}

// cpuQuota is the µs of each period; the kernel takes no less than 1000.
func cpuQuota(cpus float64) int64 { return max(int64(cpus*cpuPeriod), 1000) }

// openFiles is the limit asked for, or this user's own where that is lower:
// nobody can be given more.
func openFiles(asked int64, f *facts) uint64 {
	if f.MaxOpenFiles != 0 {
		return min(uint64(asked), f.MaxOpenFiles)
	}
	return uint64(asked)
}

func rlimit(name string, n uint64) specs.POSIXRlimit {
	return specs.POSIXRlimit{Type: name, Soft: n, Hard: n}
}

// boundProcesses sets RLIMIT_NPROC on a PID 1 that has not begun to run, where
// no cgroup bounds the number of processes. Set from inside of the user
// namespace, it counts the session's processes alone.
func boundProcesses(pid int, limit uint64) error {
	r := unix.Rlimit{Cur: limit, Max: limit}
	if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, &r, nil); err != nil {
		return contract.Errorf(contract.IsolationUnproven, "the number of processes cannot be limited").WithCause(err)
	}
	return nil
}
