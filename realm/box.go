package realm

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"realm.dev/container"
	"realm.dev/container/guest"
	"realm.dev/container/rootfs"
	"realm.dev/container/seccomp"
	"realm.dev/contract"
	"realm.dev/internal/cleanup"
	"realm.dev/realm/workspace"
)

// box is what runs a session: the container, the link to its PID 1, and all
// that was made for them.
type box struct {
	dir         string // files that the container is made of
	spec        *container.Spec
	plan        *workspace.Plan
	listener    *guest.Listener
	link        *guest.Link
	containerID string
	initPID     int
	image       container.Image // when the policy names one
	began       time.Time
	running     bool          // the engine may have the container; only then is the workspace not given back
	watched     chan struct{} // closed when nobody watches the mounts any more

	probes   []contract.Probe
	limits   []contract.AppliedLimit
	degraded []string

	grace atomic.Int64 // nanoseconds between SIGTERM and the kill at stop
	undo  cleanup.Stack
}

// Where things are inside.
const (
	homeInside = "/home/agent"
	socketPath = container.SocketDir + "/" + guest.SocketName
)

// makeBox acquires everything that a session needs, in order, and proves the
// isolation. When a step fails all that was acquired is released again.
func (s *Session) makeBox(ctx context.Context) (*box, error) {
	b := &box{dir: s.mgr.dirs.box(s.mgr.realmID, s.id), began: time.Now()}
	b.undo.Before = func(name string) { s.mgr.at("undo " + name) }
	for _, step := range []struct {
		name string
		do   func(context.Context, *box) error
	}{
		{"plan", s.planMounts},
		{"image", s.ensureImage},
		{"prepare", s.prepare},
		{"create", s.create},
		{"init", s.init},
		{"start", s.start},
		{"prove", s.prove},
	} {
		s.mgr.at(step.name)
		err := step.do(ctx, b)
		if err == nil {
			continue
		}
		// What ended the step, not the call that noticed it; asked before the
		// undo, which may itself outlast the budget.
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		if uerr := b.undo.Run(ctx); uerr != nil {
			s.log.Error("not everything of a failed start could be released", "step", step.name, "err", uerr)
		}
		return nil, err
	}
	s.mgr.at("booted")
	return b, nil
}

// planMounts decides what of the workspace the session sees, and how.
func (s *Session) planMounts(ctx context.Context, b *box) error {
	plan, err := s.tree.Plan(ctx, s.id)
	if err != nil {
		return err
	}
	b.plan = plan
	b.undo.Add("workspace", func(ctx context.Context) error {
		if b.watched != nil {
			<-b.watched
		}
		if b.running {
			return errors.New("the container may still use the workspace")
		}
		s.inspectWorkspace(ctx, b)
		return plan.Release()
	})
	s.addConditions(plan.Conditions)
	b.degraded = append(b.degraded, plan.Degraded...)
	return nil
}

// ensureImage makes an OCI image available; `realm run` has pulled it before.
func (s *Session) ensureImage(ctx context.Context, b *box) error {
	ref := s.req.Policy.Policy().Image
	if ref == imageHost {
		return nil
	}
	img, err := s.mgr.engine.EnsureImage(ctx, ref, nil)
	if err != nil {
		return err
	}
	b.image = img
	s.mu.Lock()
	s.detail.Image.Digest = img.Digest
	s.mu.Unlock()
	return nil
}

// prepare writes the files that the container is made of and completes its Spec.
func (s *Session) prepare(ctx context.Context, b *box) error {
	if err := os.Mkdir(b.dir, 0o755); err != nil {
		return diskError(err)
	}
	b.undo.Add("files", func(context.Context) error { return removeBox(b.dir) })
	link := s.mgr.dirs.link(s.mgr.realmID, s.id)
	if err := os.Mkdir(link, 0o700); err != nil {
		return diskError(err)
	}
	b.undo.Add("link", func(context.Context) error { return os.RemoveAll(link) })
	var err error
	if b.listener, err = guest.Listen(link); err != nil {
		return contract.Errorf(contract.Internal, "the socket of the container's PID 1 could not be made").WithCause(err)
	}
	b.listener.OwnerGrace = s.mgr.ownerGrace
	b.undo.Add("listener", func(context.Context) error { return b.listener.Close() })
	if b.spec, err = s.spec(ctx, b, link); err != nil {
		return err
	}
	if err := seccomp.WriteFile(b.spec.SeccompProfile); err != nil {
		return diskError(err)
	}
	if b.spec.Image != "" {
		return nil
	}
	return rootfs.Skeleton(b.spec.Rootfs, b.spec)
}

// create makes the container and compares it with what was asked.
func (s *Session) create(ctx context.Context, b *box) error {
	b.running = true // until it is removed: a create that was cut off may have made it
	b.undo.Add("container", func(ctx context.Context) error { return s.removeContainer(ctx, b) })
	id, err := s.mgr.engine.Create(ctx, b.spec)
	if err != nil {
		return err
	}
	b.containerID = id
	return s.mgr.engine.Verify(ctx, id, b.spec)
}

// init makes the container's namespaces and mounts; no program has run yet.
func (s *Session) init(ctx context.Context, b *box) error {
	if err := s.mgr.engine.Init(ctx, b.containerID); err != nil {
		return err
	}
	if err := s.mgr.engine.Verify(ctx, b.containerID, b.spec); err != nil {
		return err
	}
	st, err := s.mgr.engine.Inspect(ctx, b.containerID)
	if err != nil {
		return err
	}
	if st.Pid <= 0 {
		return contract.Errorf(contract.PodmanUnavailable, "the engine does not tell the container's PID 1")
	}
	b.initPID = st.Pid
	return nil
}

// start lets PID 1 run and takes its call.
func (s *Session) start(ctx context.Context, b *box) error {
	if err := s.watchMounts(b); err != nil {
		return err
	}
	if err := s.mgr.engine.Start(ctx, b.containerID); err != nil {
		return err
	}
	link, err := b.listener.Accept(ctx, b.initPID)
	if err != nil {
		return contract.Errorf(contract.SessionLost, "the container's PID 1 did not call").WithCause(err)
	}
	b.link = link
	b.undo.Add("supervisor", func(ctx context.Context) error {
		b.end(ctx)
		return nil
	})
	return nil
}

// end lets programs end by themselves for the grace asked for, then ends PID 1.
// The container's removal kills what is left.
func (b *box) end(ctx context.Context) {
	if grace := time.Duration(b.grace.Load()); grace > 0 {
		ctx, cancel := context.WithTimeout(ctx, min(grace, cleanup.Budget/2))
		defer cancel()
		b.terminate(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_ = b.link.Shutdown(ctx)
	_ = b.link.Close()
}

// terminate sends SIGTERM to every call and waits until none is left or ctx ends.
func (b *box) terminate(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for sent := false; ; sent = true {
		list, err := b.link.Processes(ctx)
		if err != nil || len(list.Processes) == 0 {
			return
		}
		if !sent {
			for _, c := range countByCall(list) {
				_ = b.link.Signal(ctx, c.CallID, syscall.SIGTERM)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// removeContainer removes the container; by name when the engine's answer to
// its creation was lost.
func (s *Session) removeContainer(ctx context.Context, b *box) error {
	id := b.containerID
	if id == "" {
		id = b.spec.Name()
	}
	if err := s.mgr.engine.Remove(ctx, id); err != nil {
		return err
	}
	b.running = false
	return nil
}

// release gives back everything that the box has.
func (b *box) release(ctx context.Context) error {
	if err := b.undo.Run(ctx); err != nil {
		return contract.Errorf(contract.PodmanUnavailable, "not everything of the session could be removed").
			WithCause(err).WithHint("run realm gc")
	}
	return nil
}
