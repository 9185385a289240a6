package pid1

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// patience bounds every wait for killed processes to be gone.
const patience = 20 * time.Second

func newDeadline() <-chan time.Time { return time.After(patience) }

// pause grows with every turn of a wait: most end at once, and one that does
// not must not keep a processor busy.
func pause(turn int) <-chan time.Time {
	return time.After(min(time.Duration(turn+1)*time.Millisecond, 50*time.Millisecond))
}

// call is one program and everything it leaves behind.
type call struct {
	id    string
	frame uint32
	link  *link         // who asked; answers go nowhere once it is lost
	gone  chan struct{} // closed when nothing of the call is left

	mu        sync.Mutex
	shim      *shim // nil before and after the call holds one
	pid       int   // the program's, while it is known and not reaped
	cancelled bool
}

// withShim calls f with the shim's number while the call holds the shim, so
// that f cannot meet the processes of a later call.
func (c *call) withShim(f func(root int)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shim != nil {
		f(c.shim.pid)
	}
}

// attach gives the call its shim, unless it was cancelled before.
func (c *call) attach(sh *shim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancelled {
		return false
	}
	c.shim = sh
	return true
}

// cancel keeps a call that has no shim yet from starting.
func (c *call) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancelled = true
}

func (c *call) detach() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shim, c.pid = nil, 0
}

func (c *call) setProgram(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pid = pid
}

// signal signals the process group of the program. A program that has ended is
// forgotten by then, so that the number is not another's.
func (c *call) signal(sig unix.Signal) unix.Errno {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pid == 0 {
		return unix.ESRCH
	}
	return errnoOf(unix.Kill(-c.pid, sig))
}

// kill ends everything below the call's shim and returns when it is gone.
func (c *call) kill() unix.Errno {
	c.cancel()
	deadline := newDeadline()
	for turn := 0; ; turn++ {
		var err error
		c.withShim(func(root int) { err = killBelow(root) })
		if err != nil {
			return errnoOf(err)
		}
		select {
		case <-c.gone:
			return 0
		case <-deadline:
			return unix.ETIMEDOUT
		case <-pause(turn):
		}
	}
}

// run serves a call from its start until nothing of it is left.
func (s *supervisor) run(c *call, f wire.Frame, limited bool) {
	sh, err := s.pool.take()
	if err != nil {
		wire.CloseFiles(f.Files)
		s.end(c, (&failure{phaseSupervisor, err}).exited())
		return
	}
	if !c.attach(sh) {
		wire.CloseFiles(f.Files)
		s.pool.put(sh)
		s.end(c, (&failure{phaseCall, unix.ECANCELED}).exited())
		return
	}
	sh.wear += 4*len(f.Payload) + callWear
	before, _ := s.oom.kills()
	err = sh.conn.WriteFrame(f)
	wire.CloseFiles(f.Files)
	r := relay{s: s, call: c, shim: sh, killsBefore: before}
	if err != nil || !r.follow() {
		r.lost()
		return
	}
	c.detach()
	if limited {
		sh.conn.Close()
	} else {
		s.pool.put(sh)
	}
	s.end(c, r.exited)
}

// end forgets a call and, if the outcome was not told yet, tells it. In this
// order its identifier is free for whoever learns of the outcome.
func (s *supervisor) end(c *call, outcome *wire.Exited) {
	s.forget(c)
	if outcome != nil {
		c.link.send(c.frame, outcome)
	}
}
