package realm

import (
	"context"
	"errors"
	"time"

	"realm.dev/contract"
)

// errStopped is the cause of a boot that was cancelled because somebody asked
// to stop.
var errStopped = errors.New("asked to stop")

// own is the owner goroutine: it waits for facts and applies the lifecycle
// until the session is over.
func (s *Session) own() {
	defer s.over()
	ctx, cancel := context.WithCancelCause(s.mgr.ctx)
	defer cancel(errStopped)
	var held *box
	at := stage{state: contract.Pending}
	for r := range s.facts {
		to, eff, ok := next(at, r.fact)
		if !ok {
			continue
		}
		if r.box != nil {
			held = r.box
		}
		if err := s.learn(r, at.state, to.state); err != nil {
			s.abandon(err, held)
			return
		}
		at = to
		switch eff {
		case boot:
			s.work.Go(func() { s.boot(ctx) })
		case cancelBoot:
			cancel(errStopped)
		case teardown:
			s.work.Go(func() { s.teardown(held) })
		case nothing:
		}
		if at.state.Terminal() {
			return
		}
	}
}

// learn takes r in. When it changes the state, the transition goes on disk, into
// memory and to the watchers, in that order.
func (s *Session) learn(r report, from, to contract.State) error {
	s.mu.Lock()
	if s.cause == nil {
		s.cause = r.cause
	}
	cause, d := s.cause, s.detail
	s.mu.Unlock()
	if from == to {
		return nil
	}
	change := transition(to, r, cause, time.Now().UTC())
	change(&d)
	if err := s.store.transition(from, &d, cause); err != nil {
		return err
	}
	s.publish(change, r.box)
	return nil
}

// transition returns what a move to state changes in the detail.
func transition(to contract.State, r report, cause error, now time.Time) func(*contract.SessionDetail) {
	return func(d *contract.SessionDetail) {
		d.Record.State = to
		switch {
		case to == contract.Ready:
			d.ReadyAt = &now
			d.Record.ContainerID = &r.box.containerID
			d.Probes, d.Limits = r.box.probes, r.box.limits
			d.Degraded = append(d.Degraded, r.box.degraded...)
		case to.Terminal():
			d.EndedAt = &now
			d.Background = []contract.BackgroundCall{}
			if d.Outcome == nil || to == contract.Failed {
				d.Outcome = outcome(to, cause)
			}
		}
	}
}

// outcome says how a session ended that no program's end explains.
func outcome(to contract.State, cause error) *contract.Outcome {
	o := &contract.Outcome{Source: contract.FromRealm, Reason: "stopped"}
	if to == contract.Failed {
		o.Reason = "failed"
	}
	if cause != nil {
		o.Error = contract.AsError(cause)
		if o.Error.Code == contract.PodmanUnavailable || o.Error.Code == contract.SessionLost {
			o.Source = contract.FromEngine
		}
	}
	return o
}

// publish makes a transition that is on disk visible.
func (s *Session) publish(change func(*contract.SessionDetail), b *box) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.detail)
	rec := s.detail.Record
	if rec.State == contract.Ready {
		s.box = b
		close(s.ready)
	} else if rec.State != contract.Starting {
		s.box = nil
	}
	for ch := range s.watchers {
		ch <- rec // has room for all the states there are
		if rec.State.Terminal() {
			close(ch)
			delete(s.watchers, ch)
		}
	}
}

// abandon ends a session whose transition could not be written: nobody has seen
// it, so it must not take effect. Everything is released; the record on disk
// stays where it was, and the next sweep finishes it.
func (s *Session) abandon(err error, held *box) {
	s.log.Error("a transition could not be written; ending the session", "err", err)
	s.mu.Lock()
	s.cause = contract.Errorf(contract.LimitExceeded, "the session's record could not be written").
		WithCause(err).WithHint("look at the free space of the state directory, then run realm gc")
	s.box = nil
	s.mu.Unlock()
	if held != nil {
		_ = held.release(s.mgr.ctx)
	}
}

// over is the end of the owner. Done is closed last, when nothing runs any more.
func (s *Session) over() {
	close(s.quit)
	s.work.Wait()
	s.mu.Lock()
	for ch := range s.watchers {
		close(ch)
	}
	s.watchers = nil
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	s.mu.Unlock()
	s.store.close()
	_ = s.tree.Close()
	close(s.done)
}

// boot makes the session's container ready within the policy's budget. When it
// fails, everything that it had acquired is released before it says so.
func (s *Session) boot(ctx context.Context) {
	budget := time.Duration(s.req.Policy.Policy().StartupBudgetMs) * time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, budget,
		contract.Errorf(contract.StartupTimeout, "not ready after %s", budget).
			WithHint("raise startupBudgetMs in the policy"))
	defer cancel()
	b, err := s.makeBox(ctx)
	if err != nil {
		if errors.Is(err, errStopped) {
			err = nil
		}
		s.report(report{fact: bootFailed, cause: err})
		return
	}
	if !s.report(report{fact: booted, box: b}) {
		_ = b.release(ctx)
		return
	}
	s.work.Go(func() { s.guard(b) })
}

// guard tells the owner when the box is lost.
func (s *Session) guard(b *box) {
	select {
	case <-b.link.Done():
		s.report(report{fact: lost, cause: contract.Errorf(contract.SessionLost, "the container or its supervisor ended").WithCause(b.link.Err())})
	case <-s.quit:
	}
}

// teardown releases the box (nil when there never was one).
func (s *Session) teardown(b *box) {
	s.mgr.at("teardown")
	var err error
	if b != nil {
		err = b.release(s.mgr.ctx)
	}
	if err != nil {
		s.log.Error("not everything could be released", "err", err)
		s.report(report{fact: releaseFailed, cause: contract.AsError(err)})
		return
	}
	s.report(report{fact: released})
}
