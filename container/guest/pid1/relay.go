package pid1

import (
	"time"

	"realm.dev/container/guest/wire"
)

// relay follows what a shim tells of one call.
type relay struct {
	s           *supervisor
	call        *call
	shim        *shim
	killsBefore uint64

	pid    int           // of the program, once started
	main   <-chan waited // its end, should it become init's child
	told   bool          // the outcome has been sent
	exited *wire.Exited  // the outcome to send with the end of the call
}

// follow returns true when nothing of the call is left below the shim, false
// when the shim is lost.
func (r *relay) follow() bool {
	for {
		f, err := r.shim.conn.Read()
		if err != nil {
			return false
		}
		m, err := wire.Decode(f.Type, f.Payload)
		if err != nil {
			wire.CloseFiles(f.Files)
			return false
		}
		switch m := m.(type) {
		case *wire.Started:
			r.started(m, f)
		case *wire.Exited:
			if r.ended(m); m.Background == 0 {
				r.exited = m
				return true
			}
			r.told = true
			r.call.link.send(r.call.frame, m)
		case *wire.Idle:
			return true
		default:
			return false
		}
	}
}

func (r *relay) started(m *wire.Started, f wire.Frame) {
	r.pid = int(m.PID)
	r.main = r.s.reaper.watch(r.pid)
	r.call.setProgram(r.pid)
	r.call.link.send(r.call.frame, m, f.Files...)
	wire.CloseFiles(f.Files)
}

// ended completes the outcome with what init knows.
func (r *relay) ended(m *wire.Exited) {
	if r.pid != 0 {
		r.s.reaper.unwatch(r.pid)
		r.call.setProgram(0)
	}
	if m.Outcome == wire.OutcomeNotStarted {
		return
	}
	if kills, ok := r.s.oom.kills(); ok {
		m.OOMKnown, m.OOMKills = true, uint32(kills-r.killsBefore)
	}
}

// lost ends a call whose shim was killed (by a reset, or by the OOM killer when
// nothing else was left). The kernel has given its processes to init: they are
// ended, and the program's own end is told if init is the one who sees it.
func (r *relay) lost() {
	r.shim.conn.Close()
	r.s.reaper.kill(r.shim.pid) // one that said nonsense may still be there
	<-r.shim.ended
	r.call.detach()
	r.s.killStrays()
	var outcome *wire.Exited
	if !r.told {
		outcome = r.verdict()
	}
	r.s.end(r.call, outcome)
}

// verdict is the outcome of a program whose shim is lost. If the shim had
// reaped it, nobody can know any more.
func (r *relay) verdict() *wire.Exited {
	if r.pid == 0 {
		return &wire.Exited{Outcome: wire.OutcomeLost}
	}
	wait := time.Duration(0) // init has reaped it and told us, or it never will
	if r.s.reaper.isChild(r.pid) {
		wait = patience
	}
	w, ok := receive(r.main, wait)
	if !ok {
		r.s.reaper.unwatch(r.pid)
		return &wire.Exited{Outcome: wire.OutcomeLost}
	}
	m := w.exited()
	r.ended(m)
	return m
}

// receive prefers what is there to the end of the wait.
func receive(c <-chan waited, wait time.Duration) (waited, bool) {
	select {
	case w := <-c:
		return w, true
	default:
	}
	select {
	case w := <-c:
		return w, true
	case <-time.After(wait):
		return waited{}, false
	}
}
