package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
	"realm.dev/container"
	"realm.dev/contract"
)

// capabilityBits are the numbers of the capabilities that realm gives.
var capabilityBits = map[string]uint{
	"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID,
	"KILL": unix.CAP_KILL, "SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID,
}

// ReadBack reads from the kernel that PID 1 is confined and which limits are in
// force. Nothing the engine says is taken for it: it accepts what it ignores.
func (e *Engine) ReadBack(ctx context.Context, id string, s *container.Spec) ([]contract.AppliedLimit, error) {
	f, err := e.learn(ctx)
	if err != nil {
		return nil, err
	}
	st, err := e.Inspect(ctx, id)
	if err != nil {
		return nil, err
	}
	if st.State != container.Running || st.Pid <= 0 {
		return nil, contract.Errorf(contract.IsolationUnproven, "the container does not run")
	}
	p := processOf(st.Pid)
	if err := confined(p, s, f.Rootless); err != nil {
		return nil, err
	}
	limits, err := readLimits(p, s, f)
	if err != nil {
		return nil, err
	}
	return limits, enforced(limits, s.Limits.AllowUnenforced)
}

// confined checks PID 1 as the kernel has it.
func confined(p process, s *container.Spec, rootless bool) error {
	status, err := p.status()
	if err != nil {
		return unproven("the kernel's account of PID 1 cannot be read", err)
	}
	uids, err := p.ids("uid_map")
	if err != nil {
		return unproven("the ids of PID 1 cannot be read", err)
	}
	gids, err := p.ids("gid_map")
	if err != nil {
		return unproven("the ids of PID 1 cannot be read", err)
	}
	var bits uint64
	for _, c := range capabilities(s) {
		bits |= 1 << capabilityBits[c]
	}
	given, none := fmt.Sprintf("%016x", bits), fmt.Sprintf("%016x", 0)
	return all([]check{
		{"no system call filter is in force", status["Seccomp"] == "2", status["Seccomp"]},
		{"new privileges can be had", status["NoNewPrivs"] == "1", status["NoNewPrivs"]},
		{"PID 1 has other capabilities", status["CapEff"] == given && status["CapPrm"] == given && status["CapBnd"] == given, status["CapEff"]},
		{"PID 1 hands capabilities on", status["CapInh"] == none && status["CapAmb"] == none, status["CapInh"]},
		{"an id inside is root on the host", !reachesRoot(uids) && !reachesRoot(gids), uids},
		{"programs are another user on the host", programsAre(uids, gids, s.User, rootless), uids},
		{"a namespace is the host's", ownNamespaces(p), p.dir},
	})
}

// programsAre checks that the ids of programs are on the host what was planned:
// pipes and files are handed to those.
func programsAre(uids, gids []specs.LinuxIDMapping, u container.User, rootless bool) bool {
	uid, gid := u.IDs()
	wantUID, wantGID := u.HostIDs(rootless)
	gotUID, okUID := hostID(uids, uid)
	gotGID, okGID := hostID(gids, gid)
	return okUID && okGID && gotUID == wantUID && gotGID == wantGID
}

// ownNamespaces checks that p shares no namespace with us. One that cannot be
// read is not proven.
func ownNamespaces(p process) bool {
	for _, kind := range []string{"cgroup", "ipc", "mnt", "net", "pid", "user", "uts"} {
		theirs, err := os.Readlink(filepath.Join(p.dir, "ns", kind))
		if err != nil {
			return false
		}
		ours, err := os.Readlink(filepath.Join("/proc/self/ns", kind))
		if err != nil || ours == theirs {
			return false
		}
	}
	return true
}

// readLimits reads every limit back.
func readLimits(p process, s *container.Spec, f *facts) ([]contract.AppliedLimit, error) {
	c, err := p.cgroup()
	if err != nil {
		return nil, unproven("the cgroup of PID 1 cannot be read", err)
	}
	l := s.Limits
	memory := applied("memoryBytes", float64(l.MemoryBytes), "cgroup", missing("memory", f))(c.memory())
	pids := applied("pids", float64(l.Pids), "cgroup", "")(c.value("pids", "pids.max", "pids.max"))
	if pids.InForce == nil {
		pids = applied("pids", float64(l.Pids), "rlimit", "")(p.limit("Max processes"))
		pids.Detail = "by user of the session: " + missing("pids", f)
	}
	files := applied("openFiles", float64(l.OpenFiles), "rlimit", "")(p.limit("Max open files"))
	if files.InForce != nil && *files.InForce < files.Asked {
		files.Detail = "lowered to this user's own limit"
	}
	limits := []contract.AppliedLimit{
		memory,
		applied("cpus", float64(cpuQuota(l.CPUs))/cpuPeriod, "cgroup", missing("cpu", f))(c.cpus()),
		pids, files,
	}
	for _, t := range s.Tmpfs {
		if t.Destination == "/tmp" {
			limits = append(limits, applied("tmpBytes", float64(t.SizeBytes), "tmpfs", "")(p.fileSystemSize(t.Destination)))
		}
	}
	return limits, nil
}

// memory is the limit of memory and swap together: a limit on memory alone only
// moves a program to the host's swap.
func (c cgroup) memory() (float64, error) {
	memory, err := c.value("memory", "memory.max", "memory.limit_in_bytes")
	if err != nil {
		return 0, err
	}
	both, err := c.value("memory", "memory.swap.max", "memory.memsw.limit_in_bytes")
	switch {
	case errors.Is(err, fs.ErrNotExist): // a kernel without swap accounting
		return memory, nil
	case err != nil:
		return 0, err
	case len(c.legacy) == 0 || c.legacy["memory"] == "":
		both += memory // cgroup v2 counts swap apart
	}
	return math.Max(memory, both), nil
}

func (p process) fileSystemSize(path string) (float64, error) {
	root, err := unix.Open(filepath.Join(p.dir, "root"), unix.O_PATH|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(root)
	fd, err := unix.Openat2(root, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return 0, err
	}
	return float64(st.Blocks) * float64(st.Bsize), nil
}

// applied makes a row of the limits from what was read: a limit that is above
// what was asked, or cannot be read, is not in force.
func applied(name string, asked float64, by, why string) func(float64, error) contract.AppliedLimit {
	return func(found float64, err error) contract.AppliedLimit {
		row := contract.AppliedLimit{Name: name, Asked: asked}
		if err != nil || math.IsNaN(found) || found > roundUp(asked, by) {
			row.Detail = why
			return row
		}
		row.InForce, row.By = &found, by
		return row
	}
}

// roundUp is asked in the unit that the kernel counts in: pages for memory.
func roundUp(asked float64, by string) float64 {
	if by != "tmpfs" {
		return asked
	}
	page := float64(os.Getpagesize())
	return math.Ceil(asked/page) * page
}

// enforced refuses a session whose memory or processes nothing bounds.
func enforced(limits []contract.AppliedLimit, allowed []string) error {
	names := map[string]string{"memoryBytes": limitMemory, "pids": limitPids}
	for _, l := range limits {
		name, needed := names[l.Name]
		if needed && l.InForce == nil && !slices.Contains(allowed, name) {
			err := contract.Errorf(contract.IsolationUnproven, "the limit %s is not in force", name)
			if l.Detail != "" {
				err.Detail += ": " + l.Detail
			}
			return err.WithHint("run realm doctor; --allow-unenforced %s starts the session without it", name)
		}
	}
	return nil
}
