package pid1

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// harden closes the process to others and to what it starts: not dumpable (no
// ptrace, no /proc/PID/mem, environ or fd for another uid), no core file, and
// no descriptor of ours outlives an exec.
func harden() error {
	unix.Umask(0o022)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return os.NewSyscallError("setrlimit", err)
	}
	err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	return os.NewSyscallError("close_range", err)
}

// shieldSignals gives every signal its default action. The kernel drops a
// signal for PID 1 that has the default action, whoever inside the container
// sends it; a handler is what makes it vulnerable, and the Go runtime installs
// one for each (a SIGSEGV sent by kill ends a Go program). Only SIGURG keeps
// its handler: the runtime preempts with it and ignores it otherwise.
func shieldSignals() {
	// All zero is SIG_DFL without flags in the layout of amd64 and arm64:
	// handler, flags, restorer, mask.
	var action [4]uint64
	for sig := uintptr(1); sig <= 64; sig++ {
		if unix.Signal(sig) == unix.SIGURG {
			continue
		}
		// Of SIGKILL and SIGSTOP, and of nothing else, this is refused.
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
	}
}

// warmThreads makes the runtime create n threads, which it then keeps. The
// runtime ends the process when it needs a thread and the pids limit is used
// up, so that a fork bomb in the session would take PID 1 with it.
func warmThreads(n int) {
	var ready, done sync.WaitGroup
	release := make(chan struct{})
	for range n {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}
