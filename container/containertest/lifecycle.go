package containertest

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"realm.dev/container"
	"realm.dev/contract"
)

// Version tells Info.
func (f *Fake) Version(ctx context.Context) (info container.Info, err error) {
	err = f.do(ctx, OpVersion, func() error {
		info = f.Info
		return nil
	})
	return info, err
}

// EnsureImage finds what AddImage added.
func (f *Fake) EnsureImage(ctx context.Context, ref string, progress func(container.Progress)) (image container.Image, err error) {
	err = f.do(ctx, OpEnsureImage, func() error {
		var ok bool
		if image, ok = f.images[ref]; !ok {
			return contract.Errorf(contract.ImageUnavailable, "the engine could not pull the image")
		}
		if progress != nil {
			progress(container.Progress{Layer: "layer", Done: 1, Total: 1, Message: "Download complete"})
		}
		return nil
	})
	return image, err
}

// Create keeps the container.
func (f *Fake) Create(ctx context.Context, s *container.Spec) (id string, err error) {
	err = f.do(ctx, OpCreate, func() error {
		if err := s.Validate(); err != nil {
			return err
		}
		if c := f.find(s.Name()); c != nil {
			id = c.status.ID
			return nil
		}
		f.next++
		id = "fake" + strconv.Itoa(f.next)
		f.containers[id] = &fakeContainer{
			spec: *s, ended: make(chan struct{}),
			status: container.Status{ID: id, Name: s.Name(), Labels: s.Labels(), State: container.Created},
		}
		return nil
	})
	return id, err
}

// Verify compares s with the Spec that the container was created from.
func (f *Fake) Verify(ctx context.Context, id string, s *container.Spec) error {
	return f.with(ctx, OpVerify, id, func(c *fakeContainer) error {
		if !reflect.DeepEqual(c.spec, *s) {
			return contract.Errorf(contract.IsolationUnproven, "the engine set the container up differently")
		}
		return nil
	})
}

// Init gives the container a PID 1.
func (f *Fake) Init(ctx context.Context, id string) error {
	return f.with(ctx, OpInit, id, func(c *fakeContainer) error {
		if c.status.State != container.Created {
			return nil
		}
		c.status.State, c.status.Pid = container.Initialized, 1<<22+f.next
		if f.OnInit != nil {
			c.status.Pid = f.OnInit(&c.spec)
		}
		return nil
	})
}

// Start lets it run.
func (f *Fake) Start(ctx context.Context, id string) error {
	if st, err := f.Inspect(ctx, id); err == nil && st.State == container.Created {
		if err := f.Init(ctx, id); err != nil {
			return err
		}
	}
	return f.with(ctx, OpStart, id, func(c *fakeContainer) error {
		if c.status.State == container.Running {
			return nil
		}
		c.status.State, c.status.StartedAt, c.status.CgroupPath = container.Running, time.Now(), "/fake/"+id
		if f.OnStart != nil {
			f.OnStart(&c.spec)
		}
		f.tell(c, "start")
		return nil
	})
}

// ReadBack finds every limit in force.
func (f *Fake) ReadBack(ctx context.Context, id string, s *container.Spec) (limits []contract.AppliedLimit, err error) {
	err = f.with(ctx, OpReadBack, id, func(c *fakeContainer) error {
		if c.status.State != container.Running {
			return contract.Errorf(contract.IsolationUnproven, "the container does not run")
		}
		l := s.Limits
		for name, asked := range map[string]float64{
			"memoryBytes": float64(l.MemoryBytes), "cpus": l.CPUs, "pids": float64(l.Pids), "openFiles": float64(l.OpenFiles),
		} {
			limits = append(limits, contract.AppliedLimit{Name: name, Asked: asked, InForce: &asked, By: "cgroup"})
		}
		return nil
	})
	slices.SortFunc(limits, func(a, b contract.AppliedLimit) int { return strings.Compare(a.Name, b.Name) })
	return limits, err
}

// Wait blocks until Exit, a Signal or Remove.
func (f *Fake) Wait(ctx context.Context, id string) (exit container.ExitStatus, err error) {
	var c *fakeContainer
	err = f.with(ctx, OpWait, id, func(found *fakeContainer) error {
		c = found
		return nil
	})
	if err != nil {
		return exit, err
	}
	select {
	case <-c.ended:
	case <-ctx.Done():
		return exit, contract.Errorf(contract.PodmanUnavailable, "the engine had no time left").WithCause(context.Cause(ctx))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return container.ExitStatus{Code: c.status.ExitCode, At: time.Now()}, nil
}

// Signal ends PID 1: it has a handler for none.
func (f *Fake) Signal(ctx context.Context, id string, sig int) error {
	return f.with(ctx, OpSignal, id, func(c *fakeContainer) error {
		if c.status.State != container.Running {
			return contract.Errorf(contract.SessionState, "the container does not run")
		}
		f.exit(c, 128+sig)
		return nil
	})
}

// Remove forgets the container.
func (f *Fake) Remove(ctx context.Context, id string) error {
	return f.do(ctx, OpRemove, func() error {
		c := f.find(id)
		if c == nil {
			return nil
		}
		f.exit(c, 137)
		delete(f.containers, c.status.ID)
		f.tell(c, "remove")
		return nil
	})
}

// exit ends a container that has a PID 1.
func (f *Fake) exit(c *fakeContainer, code int) {
	if c.status.State == container.Exited {
		return
	}
	running := c.status.State == container.Running
	c.status.State, c.status.Pid, c.status.ExitCode = container.Exited, 0, &code
	close(c.ended)
	if running {
		f.tell(c, "died")
	}
}
