package realm

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/container/guest"
	"realm.dev/container/guest/wire"
	"realm.dev/contract"
)

// prove shows that the sandbox is what it claims: by the kernel's own account of
// PID 1, its mounts and limits, and by probes that try from inside what must
// not be possible. One that succeeds, and the session never becomes ready.
func (s *Session) prove(ctx context.Context, b *box) error {
	var err error
	if b.limits, err = s.mgr.engine.ReadBack(ctx, b.containerID, b.spec); err != nil {
		return err
	}
	lost, err := b.plan.Verify(b.initPID)
	if err != nil {
		return contract.Errorf(contract.IsolationUnproven, "the session's mounts could not be read back").WithCause(err)
	}
	if len(lost) > 0 {
		return contract.Errorf(contract.IsolationUnproven, "%d of the workspace's mounts are not in force", len(lost))
	}
	s.nameLimits(b)
	rep, err := b.link.Probe(ctx, s.probeRequest(b))
	if err != nil {
		return contract.Errorf(contract.IsolationUnproven, "the probes did not answer").WithCause(err)
	}
	for _, r := range rep.Results {
		b.probes = append(b.probes, contract.Probe{Name: r.Name, OK: r.OK, Detail: r.Detail})
		if !r.OK && r.Waived {
			b.degraded = append(b.degraded, "probe waived: "+r.Name)
		}
	}
	if failed := rep.Failed(); len(failed) > 0 {
		s.mu.Lock()
		s.detail.Probes = b.probes
		s.mu.Unlock()
		return contract.Errorf(contract.IsolationUnproven, "probe %s failed: %s (%d of %d failed)",
			failed[0].Name, failed[0].Detail, len(failed), len(rep.Results)).
			WithHint("run realm doctor; the session's detail lists every probe")
	}
	return nil
}

// nameLimits names each limit that is not in force, and tells the programs' share
// of the processes from the supervisor's.
func (s *Session) nameLimits(b *box) {
	for i := range b.limits {
		l := &b.limits[i]
		if l.InForce == nil {
			b.degraded = append(b.degraded, "limit not in force: "+l.Name)
		}
		if l.Name == "pids" {
			l.Asked = float64(s.req.Policy.Policy().Limits.Pids)
			l.Detail = strings.TrimPrefix(l.Detail+"; "+strconv.Itoa(supervisorPids)+" more are for the session's supervisor", "; ")
		}
	}
}

// inForce is a limit as the kernel enforces it by such means; 0 when it does not.
func (b *box) inForce(name, by string) uint64 {
	for _, l := range b.limits {
		if l.Name == name && l.By == by && l.InForce != nil {
			return uint64(*l.InForce)
		}
	}
	return 0
}

// probeRequest says what the probes must find.
func (s *Session) probeRequest(b *box) guest.ProbeRequest {
	uid, gid := b.spec.User.IDs()
	req := guest.ProbeRequest{
		UID: uid, GID: gid, Env: s.programEnv(b, nil, false), Dir: b.spec.Workspace.Destination, Home: homeInside,
		Writable: []string{"/tmp", "/home", "/dev/shm", "/var/tmp"},
		ReadOnly: []string{container.InitPath, container.SocketDir},
	}
	if n := b.inForce("openFiles", "rlimit"); n > 0 {
		req.Rlimits = []guest.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: n, Hard: n}}
	}
	req.MemoryBytes, req.PidsMax = b.inForce("memoryBytes", "cgroup"), b.inForce("pids", "cgroup")
	req.HostSockets = []string{s.Record().ControlSocketPath, s.mgr.dirs.link(s.mgr.realmID, s.id)}
	switch {
	case b.plan.Unwritable: // by its mode, which tells nothing of the mount
	case b.spec.Workspace.Write:
		req.Writable = append(req.Writable, b.spec.Workspace.Destination)
	default:
		req.ReadOnly = append(req.ReadOnly, b.spec.Workspace.Destination)
	}
	req.ReadOnly = append(req.ReadOnly, b.plan.Probes()...)
	if b.spec.User.Root {
		req.Waived = rootWaives
	} else {
		req.ReadOnly = append(req.ReadOnly, "/etc", "/usr")
	}
	return req
}

// rootWaives names the probes that cannot hold when programs are uid 0 of the
// namespace with the package managers' capabilities (policy user: root).
var rootWaives = []string{
	wire.ProbeInitCapabilities, wire.ProbeCapabilities, wire.ProbeRootfsReadOnly,
	wire.ProbePtraceInit, wire.ProbeSignalInit, wire.ProbeInitPrivate,
}
