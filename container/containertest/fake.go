// Package containertest holds a container engine in memory, and the suite that
// it and every real engine pass.
package containertest

import (
	"context"
	"maps"
	"slices"
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
