// Package controltest holds a session without a container, for tests of the
// control socket and of its clients.
package controltest

import (
	"context"
	"slices"
	"sync"
	"time"

	"realm.dev/contract"
)

// Session is a session without a container: tests set its states, and what a
// call does is a function. It satisfies control.Session.
type Session struct {
	// OnCall runs a call; it is set before the session is served. The default
	// returns at once with exit code 0.
	OnCall func(ctx context.Context, id string, call *contract.ToolCall, out Output) contract.ToolResult

	mu       sync.Mutex
	records  []contract.SessionRecord // from the first state on
	changed  chan struct{}            // closed at the next transition
	done     chan struct{}
	calls    []string // ids, in order
	graces   []time.Duration
	watchers int
}

// Output is control.Output.
type Output = func(stream string, offset int64, p []byte)

// New returns a session in state.
func New(state contract.State) *Session {
	return &Session{
		OnCall: func(_ context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
			return Exited(id, 0)
		},
		records: []contract.SessionRecord{Record(state)},
		changed: make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// Record is the record of every Session in state.
func Record(state contract.State) contract.SessionRecord {
	id := "c0ffee"
	return contract.SessionRecord{
		RealmID: "local", SessionID: "s1", WorkspaceRoot: "/home/u/project", State: state,
		ControlSocketPath: "/run/user/1000/realm/local/s1.sock", ContainerID: &id,
	}
}

// Detail is the detail of every Session in state.
func Detail(state contract.State) contract.SessionDetail {
	return contract.SessionDetail{
		Record: Record(state), CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Mode: contract.ReadOnly, Git: contract.GitRead, Image: contract.ImageInfo{Ref: "host"},
		PolicyDigest: "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		Egress:       "none", Conditions: []contract.Condition{}, Probes: []contract.Probe{},
		Limits: []contract.AppliedLimit{}, Background: []contract.BackgroundCall{},
		HeldBack: []contract.HeldBack{}, Degraded: []string{},
	}
}

// Exited is the result of a program that printed nothing.
func Exited(id string, code int) contract.ToolResult {
	none := contract.Output{Encoding: contract.UTF8}
	return contract.ToolResult{CallID: id, Exec: &contract.ExecResult{
		Outcome: contract.Exited, ExitCode: &code, Stdout: none, Stderr: none,
	}}
}

// Enter makes the next transition.
func (s *Session) Enter(state contract.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.enterLocked(state)
}

func (s *Session) enterLocked(state contract.State) {
	s.records = append(s.records, Record(state))
	close(s.changed)
	s.changed = make(chan struct{})
	if state.Terminal() {
		close(s.done)
	}
}

// Calls returns the ids of the calls that came, in order.
func (s *Session) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Graces returns the grace of each stop that came.
func (s *Session) Graces() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.graces)
}

// Watchers returns how many watch now.
func (s *Session) Watchers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.watchers
}

// Record implements control.Session.
func (s *Session) Record() contract.SessionRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.records[len(s.records)-1]
}

// Detail implements control.Session.
func (s *Session) Detail() contract.SessionDetail { return Detail(s.Record().State) }

// Done implements control.Session.
func (s *Session) Done() <-chan struct{} { return s.done }

// Watch implements control.Session.
func (s *Session) Watch(ctx context.Context) <-chan contract.SessionRecord {
	out := make(chan contract.SessionRecord)
	s.mu.Lock()
	next := len(s.records) - 1
	s.watchers++
	s.mu.Unlock()
	go func() {
		defer func() {
			s.mu.Lock()
			s.watchers--
			s.mu.Unlock()
			close(out)
		}()
		for ; ; next++ {
			record, ok := s.wait(ctx, next)
			if !ok {
				return
			}
			select {
			case out <- record:
			case <-ctx.Done():
				return
			}
			if record.State.Terminal() {
				return
			}
		}
	}()
	return out
}

func (s *Session) wait(ctx context.Context, n int) (contract.SessionRecord, bool) {
	for {
		s.mu.Lock()
		records, changed := s.records, s.changed
		s.mu.Unlock()
		if n < len(records) {
			return records[n], true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contract.SessionRecord{}, false
		}
	}
}

// Stop implements control.Session.
func (s *Session) Stop(_ context.Context, grace time.Duration) (contract.SessionRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.graces = append(s.graces, grace)
	if !s.records[len(s.records)-1].State.Terminal() {
		s.enterLocked(contract.Stopping)
		s.enterLocked(contract.Stopped)
	}
	return s.records[len(s.records)-1], nil
}

// Call implements control.Session.
func (s *Session) Call(ctx context.Context, id string, call *contract.ToolCall, out Output) contract.ToolResult {
	s.mu.Lock()
	s.calls = append(s.calls, id)
	s.mu.Unlock()
	return s.OnCall(ctx, id, call, out)
}
