package pid1

import (
	"sync"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// supervisor is init: the calls that are alive, and what serves them.
type supervisor struct {
	reaper *reaper
	pool   *pool
	oom    oomCounter
	// inherited is how many descriptors the engine left open.
	inherited int

	mu    sync.Mutex
	calls map[string]*call
}

func newSupervisor(inherited int) (*supervisor, error) {
	r := newReaper()
	p, err := newPool(func() (*shim, error) { return spawnShim(r) })
	if err != nil {
		return nil, err
	}
	return &supervisor{
		reaper: r, pool: p, oom: openOOMCounter(), inherited: inherited, calls: map[string]*call{},
	}, nil
}

// hello introduces init on a new link.
func (s *supervisor) hello(resumed bool) *wire.Hello {
	_, known := s.oom.kills()
	h := &wire.Hello{PID: uint32(unix.Getpid()), Resumed: resumed, OOMKnown: known}
	for _, c := range s.live() {
		h.Calls = append(h.Calls, c.id)
	}
	return h
}

func (s *supervisor) live() []*call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*call
	for _, c := range s.calls {
		calls = append(calls, c)
	}
	return calls
}

func (s *supervisor) find(id string) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[id]
}

// add registers a call, before the next frame is read: a kill that follows has
// to find it.
func (s *supervisor) add(c *call) *failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.calls[c.id] != nil:
		return &failure{phaseCall, unix.EEXIST}
	case len(s.calls) >= wire.MaxCalls:
		return &failure{phaseCall, unix.EAGAIN}
	}
	s.calls[c.id] = c
	return nil
}

// forget ends a call: nothing of it is left.
func (s *supervisor) forget(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls[c.id] == c {
		delete(s.calls, c.id)
		close(c.gone)
	}
}

// processes lists what runs below each call.
func (s *supervisor) processes() (*wire.Processes, error) {
	t, err := readTable()
	if err != nil {
		return nil, err
	}
	list := &wire.Processes{}
	for _, c := range s.live() {
		c.withShim(func(root int) {
			t.below(root, func(p process) {
				if len(list.Processes) == wire.MaxList {
					list.Truncated = true
					return
				}
				list.Processes = append(list.Processes, wire.ProcessInfo{
					Call: c.id, PID: uint32(p.pid), PPID: uint32(p.ppid),
					UID: ownerOf(p.pid), State: p.state, Name: p.name,
				})
			})
		})
	}
	return list, nil
}

// reset ends every process but init. Calls are killed one by one first, while
// their shims can still tell how they ended; the kernel's kill(-1), which is
// atomic towards fork, then ends whatever is left.
func (s *supervisor) reset() unix.Errno {
	if unix.Getpid() != 1 {
		return unix.EPERM // it would end processes that are none of ours
	}
	var kills sync.WaitGroup
	for _, c := range s.live() {
		kills.Go(func() { c.kill() })
	}
	kills.Wait()
	s.pool.drop()
	rest := s.live()
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && err != unix.ESRCH {
		return errnoOf(err)
	}
	deadline := newDeadline()
	for _, c := range rest {
		select {
		case <-c.gone:
		case <-deadline:
			return unix.ETIMEDOUT
		}
	}
	return 0
}

// killStrays ends what hangs below init and not below a shim: the rest of a
// call whose shim was killed. Under the reaper's lock no shim can be half
// registered and no process number can be given away.
func (s *supervisor) killStrays() {
	deadline := newDeadline()
	for turn := 0; s.killStraysOnce(); turn++ {
		select {
		case <-deadline:
			return
		case <-pause(turn):
		}
	}
}

func (s *supervisor) killStraysOnce() (found bool) {
	s.reaper.mu.Lock()
	defer s.reaper.mu.Unlock()
	t, err := readTable()
	if err != nil {
		return false
	}
	for _, p := range t[unix.Getpid()] {
		if _, ours := s.reaper.own[p.pid]; !ours {
			found = true
			_ = killBelow(p.pid) // it is looked for again
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
	}
	return found
}
