package realm

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"realm.dev/contract"
	"realm.dev/realm/control"
	"realm.dev/realm/workspace"
)

// Session is one session. Its owner goroutine (own) alone moves it through its
// states; every method is safe for concurrent use.
type Session struct {
	id    string
	mgr   *Manager
	req   Request
	log   *slog.Logger
	store *store
	tree  *workspace.Tree
	calls calls

	listener *control.Listener
	server   *control.Server

	facts chan report   // to the owner; unbuffered: what it took, it acts upon
	quit  chan struct{} // closed when the owner listens no more
	ready chan struct{} // closed when ready, or over
	done  chan struct{} // closed when nothing more can happen
	execs chan struct{} // a slot per concurrent program

	mu       sync.Mutex
	detail   contract.SessionDetail
	cause    error // the first thing that went wrong
	box      *box  // what runs it; nil unless ready
	watchers map[chan contract.SessionRecord]struct{}

	work sync.WaitGroup // boot and teardown
}

// report is a fact with what came of it.
type report struct {
	fact  fact
	cause error
	box   *box // with booted
}

var _ control.Session = (*Session)(nil)

// maxExecs bounds the programs that run at once in one session.
const maxExecs = 16

// ID returns the session's id.
func (s *Session) ID() string { return s.id }

// Record returns the record as it is on disk.
func (s *Session) Record() contract.SessionRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detail.Record
}

// Detail returns all that is known of the session.
func (s *Session) Detail() contract.SessionDetail {
	s.mu.Lock()
	d := s.detail
	d.Conditions = slices.Clone(d.Conditions)
	b := s.box
	s.mu.Unlock()
	if b != nil {
		ctx, cancel := context.WithTimeout(s.mgr.ctx, time.Second)
		defer cancel()
		d.Background = b.background(ctx)
	}
	return d
}

// Done is closed when the session is over and everything it had is released.
func (s *Session) Done() <-chan struct{} { return s.done }

// WaitReady blocks until the session is ready. It returns why when it never
// will be.
func (s *Session) WaitReady(ctx context.Context) error {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.detail.Record.State == contract.Ready {
		return nil
	}
	if s.cause != nil {
		return s.cause
	}
	return contract.Errorf(contract.SessionState, "the session is %s", s.detail.Record.State)
}

// Watch returns a channel of the current record and then one per transition. It
// is closed after the terminal record, or when ctx ends. A reader that falls
// more than the six states behind cannot exist: a session has no more.
func (s *Session) Watch(ctx context.Context) <-chan contract.SessionRecord {
	ch := make(chan contract.SessionRecord, 8)
	s.mu.Lock()
	defer s.mu.Unlock()
	ch <- s.detail.Record
	if s.detail.Record.State.Terminal() || s.watchers == nil {
		close(ch)
		return ch
	}
	s.watchers[ch] = struct{}{}
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.watchers[ch]; ok {
			delete(s.watchers, ch)
			close(ch)
		}
	})
	return ch
}

// Stop ends the session and waits until it is over. Stopping one that is over,
// or being stopped, waits as well and is no error. Programs get SIGTERM and
// grace to end before they are killed.
func (s *Session) Stop(ctx context.Context, grace time.Duration) (contract.SessionRecord, error) {
	s.mu.Lock()
	if b := s.box; b != nil {
		b.grace.Store(int64(grace))
	}
	s.mu.Unlock()
	s.report(report{fact: stopAsked})
	select {
	case <-s.done:
	case <-ctx.Done():
		return s.Record(), context.Cause(ctx)
	}
	return s.Record(), nil
}

// report tells the owner a fact. It reports false when nobody listens any more.
func (s *Session) report(r report) bool {
	select {
	case s.facts <- r:
		return true
	case <-s.quit:
		return false
	}
}
