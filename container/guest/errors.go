package guest

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

var (
	// ErrLost says that the link to init ended, or that init itself cannot know
	// the outcome.
	ErrLost = errors.New("outcome unknown: the link to init is lost")
	// ErrClosed says that Close was called on this side.
	ErrClosed = errors.New("link to init is closed")
	// ErrNoProcess says that the program has ended or never existed.
	ErrNoProcess = errors.New("no such process")
	// ErrBusy says that too many requests wait for an answer.
	ErrBusy = errors.New("too many requests to init")
)

// ProtocolError says that init sent what it must not. The link is closed and
// the session cannot be trusted any more.
type ProtocolError = wire.Error

// Phase is the step of a start that failed.
type Phase string

// The phases of a start.
const (
	PhaseCall       Phase = "call"       // EEXIST: the id is in use; EAGAIN: too many calls; ECANCELED: killed before
	PhaseSupervisor Phase = "supervisor" // the call's subreaper
	PhaseStdio      Phase = "stdio"      // the pty or /dev/null
	PhaseHome       Phase = "home"       // the home directory
	PhaseCwd        Phase = "cwd"        // the working directory
	PhaseLookup     Phase = "lookup"     // finding the program
	PhaseRlimit     Phase = "rlimit"     // the resource limits
	PhaseFork       Phase = "fork"       // EAGAIN: no process left within the limits
	PhaseExec       Phase = "exec"       // the program itself
)

// StartError says why a program could not be started.
type StartError struct {
	Phase Phase
	Errno syscall.Errno
}

func (e *StartError) Error() string {
	return "program not started: " + string(e.Phase) + ": " + errnoName(e.Errno)
}

// Unwrap returns the error number.
func (e *StartError) Unwrap() error { return e.Errno }

func errnoName(errno syscall.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return "unknown error"
}

// replyError is the error that a reply of init stands for.
func replyError(errno uint32) error {
	switch e := syscall.Errno(errno); e {
	case 0:
		return nil
	case unix.ESRCH:
		return ErrNoProcess
	case unix.EAGAIN:
		return ErrBusy
	default:
		return e
	}
}
