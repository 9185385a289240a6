package pid1

import (
	"os"
	"runtime"
	"runtime/debug"

	"realm.dev/container/guest/probe"
)

// The roles other than init, as the only argument. A socket path is absolute,
// so that the two cannot be confused.
const (
	roleShim  = "shim"
	roleProbe = "probe"
)

// self is the running binary, whatever path it has in the container.
const self = "/proc/self/exe"

// Main plays the role that args name and returns the exit status. Init is
// started with the absolute path of the socket to dial.
func Main(args []string) int {
	switch {
	case len(args) != 2:
		return fail("usage: realm-init SOCKET")
	case args[1] == roleProbe:
		return probe.Main()
	case args[1] == roleShim:
		return serveShim()
	case args[1] == "" || args[1][0] != '/':
		return fail("the socket path is not absolute")
	case os.Getpid() != 1:
		return fail("not the first process of a container")
	}
	// Before anything of ours is open.
	inherited := probe.InheritedDescriptors()
	// One processor is as fast for what init does, with less memory and fewer
	// threads; see warmThreads for why these are made at once.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(25)
	warmThreads(6)
	if err := harden(); err != nil {
		return fail("cannot protect itself: " + err.Error())
	}
	shieldSignals()
	s, err := newSupervisor(inherited)
	if err != nil {
		return fail("cannot start a shim: " + err.Error())
	}
	s.serve(args[1])
	return 0
}

func fail(text string) int {
	os.Stderr.WriteString("realm-init: " + text + "\n")
	return 1
}
