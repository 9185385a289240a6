// Package containertest holds a container engine in memory, and the suite that
// it and every real engine pass.
package containertest

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"realm.dev/container"
	"realm.dev/contract"
)

// Op names a method of the Engine, for faults.
type Op string

// The operations that faults can be put into.
const (
	OpVersion     Op = "version"
	OpEnsureImage Op = "image"
	OpCreate      Op = "create"
	OpVerify      Op = "verify"
	OpInit        Op = "init"
	OpStart       Op = "start"
	OpReadBack    Op = "readback"
	OpWait        Op = "wait"
	OpSignal      Op = "signal"
	OpRemove      Op = "remove"
	OpInspect     Op = "inspect"
	OpList        Op = "list"
	OpEvents      Op = "events"
)

// Fake is an engine without containers: it keeps their states. The zero value is
// not usable; see New.
type Fake struct {
	// Info is what Version tells.
	Info container.Info
	// OnInit, when set, is called as a container gets its PID 1, and returns
	// the pid; OnStart when it begins to run.
	OnInit  func(*container.Spec) (pid int)
	OnStart func(*container.Spec)

	mu         sync.Mutex
	containers map[string]*fakeContainer // by id
	images     map[string]container.Image
	faults     map[Op][]fault
	listeners  map[*listener]bool
	next       int
	closed     bool
}

type fakeContainer struct {
	spec   container.Spec
	status container.Status
	ended  chan struct{}
}

// fault is what happens to one call of an operation.
type fault struct {
	err   error
	after bool // the effect happens all the same
}

type listener struct {
	labels map[string]string
	events chan container.Event
}

// New returns an empty engine of a version that realm runs on.
func New() *Fake {
	return &Fake{
		Info: container.Info{
			Version: "5.8.8", Runtime: "crun", RuntimeVersion: "1.30", RuntimePath: "/usr/bin/crun", Rootless: true,
			CgroupVersion: "v2", Controllers: []string{"cpu", "memory", "pids"}, SubUIDs: 65536,
		},
		containers: map[string]*fakeContainer{}, images: map[string]container.Image{},
		faults: map[Op][]fault{}, listeners: map[*listener]bool{},
	}
}

var _ container.Engine = (*Fake)(nil)

// Fail lets the next call of op fail, without an effect. Several faults of one
// operation happen to its next calls in turn.
func (f *Fake) Fail(op Op, err error) { f.addFault(op, fault{err: err}) }

// FailAfter lets the next call of op have its effect and then fail, as when the
// answer is lost.
func (f *Fake) FailAfter(op Op, err error) { f.addFault(op, fault{err: err, after: true}) }

func (f *Fake) addFault(op Op, x fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults[op] = append(f.faults[op], x)
}

// AddImage makes an image available under ref.
func (f *Fake) AddImage(ref string, image container.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images[ref] = image
}

// Exit ends PID 1 of a container.
func (f *Fake) Exit(id string, code int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.find(id); c != nil {
		f.exit(c, code)
	}
}

// do runs an operation under the lock with its fault around it.
func (f *Fake) do(ctx context.Context, op Op, effect func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cause := context.Cause(ctx); cause != nil {
		return contract.Errorf(contract.PodmanUnavailable, "the engine had no time left").WithCause(cause)
	}
	if f.closed {
		return contract.Errorf(contract.PodmanUnavailable, "the engine is closed")
	}
	var x fault
	if list := f.faults[op]; len(list) > 0 {
		x, f.faults[op] = list[0], list[1:]
	}
	if x.err != nil && !x.after {
		return contract.AsError(x.err)
	}
	if err := effect(); err != nil {
		return err
	}
	if x.err != nil {
		return contract.AsError(x.err)
	}
	return nil
}

// with runs an operation on one container.
func (f *Fake) with(ctx context.Context, op Op, id string, effect func(*fakeContainer) error) error {
	return f.do(ctx, op, func() error {
		c := f.find(id)
		if c == nil {
			return contract.Errorf(contract.SessionNotFound, "the engine has no such container")
		}
		return effect(c)
	})
}

// find looks a container up by id or name.
func (f *Fake) find(id string) *fakeContainer {
	if c, ok := f.containers[id]; ok {
		return c
	}
	for _, c := range f.containers {
		if c.status.Name == id {
			return c
		}
	}
	return nil
}

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

// Inspect tells the state.
func (f *Fake) Inspect(ctx context.Context, id string) (st container.Status, err error) {
	err = f.with(ctx, OpInspect, id, func(c *fakeContainer) error {
		st = c.status
		return nil
	})
	return st, err
}

// List returns the containers that carry all labels.
func (f *Fake) List(ctx context.Context, labels map[string]string) (list []container.Status, err error) {
	err = f.do(ctx, OpList, func() error {
		for _, id := range slices.Sorted(maps.Keys(f.containers)) {
			if st := f.containers[id].status; carries(st.Labels, labels) {
				list = append(list, st)
			}
		}
		return nil
	})
	return list, err
}

func carries(has, want map[string]string) bool {
	for k, v := range want {
		got, ok := has[k]
		if !ok || v != "" && got != v {
			return false
		}
	}
	return true
}

// eventBuffer is more than any test makes; a listener that does not read loses
// events, and never stops the engine.
const eventBuffer = 1024

// Events streams what happens from now on.
func (f *Fake) Events(ctx context.Context, labels map[string]string) (<-chan container.Event, error) {
	l := &listener{labels: labels, events: make(chan container.Event, eventBuffer)}
	err := f.do(ctx, OpEvents, func() error {
		f.listeners[l] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { f.drop(l) })
	return l.events, nil
}

func (f *Fake) drop(l *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listeners[l] {
		delete(f.listeners, l)
		close(l.events)
	}
}

func (f *Fake) tell(c *fakeContainer, action string) {
	for l := range f.listeners {
		if !carries(c.status.Labels, l.labels) {
			continue
		}
		select {
		case l.events <- container.Event{ID: c.status.ID, Labels: c.status.Labels, Action: action, At: time.Now()}:
		default:
		}
	}
}

// Close ends the engine; the containers stay as they are.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for l := range f.listeners {
		delete(f.listeners, l)
		close(l.events)
	}
	return nil
}
