package pid1

import (
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

const (
	// idleShims are kept while the session rests; more cost memory for nothing.
	idleShims = 1
	// spareShims are kept between calls that come close together.
	spareShims = 16
	// restAfter is how long no call has to come for the session to rest.
	restAfter = 5 * time.Second
	// shimWear retires a shim. It runs without garbage collection, so its heap
	// only grows; this bounds it.
	shimWear = 1 << 20
	// callWear is what a call costs beside a few times its payload.
	callWear = 4 << 10
)

// shim is a started shim process, as init sees it.
type shim struct {
	pid   int
	conn  *wire.Conn
	ended <-chan waited
	wear  int
}

// dead says whether the process has been reaped. Preconditions: nobody else
// receives from s.ended.
func (s *shim) dead() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// pool keeps shims ready: starting one takes longer than running a program.
type pool struct {
	spawn func() (*shim, error)

	mu      sync.Mutex
	idle    []*shim
	filling bool
	rest    *time.Timer
}

func newPool(spawn func() (*shim, error)) (*pool, error) {
	p := &pool{spawn: spawn}
	first, err := p.spawn()
	if err != nil {
		return nil, err
	}
	p.idle = []*shim{first}
	p.rest = time.AfterFunc(restAfter, p.shrink)
	return p, nil
}

// take returns a shim that serves nobody.
func (p *pool) take() (*shim, error) {
	p.mu.Lock()
	s := p.popLocked()
	if len(p.idle) == 0 && !p.filling {
		p.filling = true
		go p.fill()
	}
	p.mu.Unlock()
	if s != nil {
		return s, nil
	}
	return p.spawn()
}

func (p *pool) popLocked() *shim {
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if !s.dead() {
			return s
		}
		s.conn.Close()
	}
	return nil
}

// fill starts one shim ahead of need. When that fails, the next call tries
// itself and tells its caller why.
func (p *pool) fill() {
	s, err := p.spawn()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.filling = false
	if err == nil {
		p.idle = append(p.idle, s)
	}
}

// put takes back a shim with nothing below it.
func (p *pool) put(s *shim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.wear > shimWear || len(p.idle) >= spareShims {
		s.conn.Close() // the shim ends at the end of its input
		return
	}
	p.idle = append(p.idle, s)
	p.rest.Reset(restAfter)
}

// shrink keeps only what a resting session needs.
func (p *pool) shrink() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > idleShims {
		p.idle[0].conn.Close()
		p.idle = p.idle[1:]
	}
}

// drop forgets all shims that serve nobody: they are about to be killed.
func (p *pool) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.idle {
		s.conn.Close()
	}
	p.idle = nil
}

// spawnShim starts a shim and returns it once it can be used.
func spawnShim(r *reaper) (*shim, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[1])
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	conn, err := wire.NewConn(pair[0])
	if err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	pid, ended, err := r.start(func() (int, error) {
		return syscall.ForkExec(self, []string{"realm-init", roleShim}, &syscall.ProcAttr{
			Dir: "/",
			// GOMAXPROCS set keeps the runtime from opening cgroup files.
			Env:   []string{"GOMAXPROCS=1", "GOGC=off"},
			Files: []uintptr{0, 1, 2, uintptr(pair[1])},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
	})
	if err == nil {
		err = awaitIdle(conn)
	}
	if err != nil {
		conn.Close()
		r.kill(pid)
		return nil, err
	}
	return &shim{pid: pid, conn: conn, ended: ended}, nil
}

// awaitIdle waits for a new shim to say that it is there. One that was forked
// may yet end for want of threads: that is no call lost, but one not started.
func awaitIdle(conn *wire.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if f, err := conn.Read(); err != nil || f.Type != wire.TypeIdle {
		return unix.EAGAIN
	}
	return conn.SetReadDeadline(time.Time{})
}
