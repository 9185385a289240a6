package pid1

import (
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waited is what the kernel says of a process that ended.
type waited struct {
	status unix.WaitStatus
	usage  unix.Rusage
}

// reaper reaps every child of init: the shims it started and whatever is
// reparented to it.
type reaper struct {
	mu      sync.Mutex
	own     map[int]struct{}    // started by us and not reaped
	waiters map[int]chan waited // who wants to know
}

func newReaper() *reaper {
	r := &reaper{own: map[int]struct{}{}, waiters: map[int]chan waited{}}
	go r.run()
	return r
}

// start forks under the lock that reaping takes, so that a child which ends at
// once is not reaped before it is known.
func (r *reaper) start(fork func() (int, error)) (int, <-chan waited, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := fork()
	if err != nil {
		return 0, nil, err
	}
	r.own[pid] = struct{}{}
	return pid, r.watchLocked(pid), nil
}

// watch tells of the end of a process that may become a child of init.
func (r *reaper) watch(pid int) <-chan waited {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watchLocked(pid)
}

func (r *reaper) watchLocked(pid int) <-chan waited {
	c := make(chan waited, 1)
	r.waiters[pid] = c
	return c
}

func (r *reaper) unwatch(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiters, pid)
}

// isChild says whether pid is a child of init that is not reaped yet.
func (r *reaper) isChild(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil
}

// kill kills a process that we started, unless it has been reaped.
func (r *reaper) kill(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ours := r.own[pid]; ours {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// run reaps for ever. It looks first and reaps under the lock: between the two
// the process stays a zombie, and its number cannot be given to another.
func (r *reaper) run() {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT, nil)
		switch err {
		case nil:
			r.reap(siginfoPID(&info))
		case unix.EINTR:
		default: // ECHILD: no shim at this moment
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (r *reaper) reap(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var w waited
	if got, err := unix.Wait4(pid, &w.status, unix.WNOHANG, &w.usage); err != nil || got != pid {
		return
	}
	delete(r.own, pid)
	if c, ok := r.waiters[pid]; ok {
		delete(r.waiters, pid)
		c <- w
	}
}

// siginfoPID is si_pid of a child's siginfo: the first field of the union,
// which starts at 16 on 64-bit Linux.
func siginfoPID(info *unix.Siginfo) int {
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), 16)))
}
