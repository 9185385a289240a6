package guest

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// signalTimeout bounds Signal, which takes no context.
const signalTimeout = 10 * time.Second

// Process is a program that init runs. The files are the caller's to close.
type Process struct {
	PID int // in the container

	// Stdin is nil when the program has none. With a terminal it writes to it,
	// and Close does nothing.
	Stdin io.WriteCloser
	// Stdout is the pipe, or the master of the terminal, which ends with EIO.
	Stdout *os.File
	// Stderr is nil with a terminal.
	Stderr *os.File

	link *Link
	id   string
	tty  bool

	// The reader of the link writes these before it closes a channel.
	started chan struct{}
	master  *os.File
	done    chan struct{}
	status  ExitStatus
	err     error
}

// ExitStatus tells how a program ended.
type ExitStatus struct {
	Exited bool           // it exited with Code; else Signal ended it
	Code   int            //
	Signal syscall.Signal //

	OOMKnown bool // the session's counter of OOM kills is visible
	OOM      bool // it counted at least one during this call

	User, System time.Duration
	MaxRSS       int64 // bytes; at least the parent's at the fork, some MiB

	Background int // processes of the call that were still alive
}

func (p *Process) deliver(f *wire.Frame, m wire.Message) (bool, error) {
	switch m := m.(type) {
	case *wire.Started:
		return false, p.deliverStarted(f, m)
	case *wire.Exited:
		return true, p.deliverExited(m)
	}
	return false, &ProtocolError{Reason: "unexpected answer"}
}

func (p *Process) deliverStarted(f *wire.Frame, m *wire.Started) error {
	if p.PID != 0 || m.PID == 0 || m.PID > 1<<22 {
		return &ProtocolError{Reason: "started twice or without a process"}
	}
	if !p.tty && len(f.Files) > 0 {
		return &ProtocolError{Reason: "unexpected descriptors"}
	}
	if p.tty {
		if len(f.Files) != 1 || !isMaster(f.Files[0]) {
			return &ProtocolError{Reason: "no terminal"}
		}
		master, err := nearEnd(f.Files[0])
		f.Files = nil
		if err != nil {
			return &ProtocolError{Reason: "terminal without poll"}
		}
		p.master = master
	}
	p.PID = int(m.PID)
	close(p.started)
	return nil
}

// isMaster says whether fd is the master of a pty. Init could pass anything,
// and reads of some things never return.
func isMaster(fd int) bool {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(5, 2)
}

func (p *Process) deliverExited(m *wire.Exited) error {
	if (m.Outcome == wire.OutcomeNotStarted) != (p.PID == 0) && m.Outcome != wire.OutcomeLost {
		return &ProtocolError{Reason: "ended without having started, or the reverse"}
	}
	switch m.Outcome {
	case wire.OutcomeNotStarted:
		p.err = &StartError{Phase: Phase(m.Phase), Errno: syscall.Errno(m.Errno)}
	case wire.OutcomeLost:
		p.err = ErrLost
	case wire.OutcomeExited, wire.OutcomeSignaled:
	}
	p.status = ExitStatus{
		Exited:     m.Outcome == wire.OutcomeExited,
		Code:       int(m.Code),
		Signal:     syscall.Signal(m.Signal),
		OOMKnown:   m.OOMKnown,
		OOM:        m.OOMKills > 0,
		User:       time.Duration(m.UserMicros) * time.Microsecond,
		System:     time.Duration(m.SysMicros) * time.Microsecond,
		MaxRSS:     int64(m.MaxRSS),
		Background: int(m.Background),
	}
	close(p.done)
	return nil
}

func (p *Process) lost(err error) {
	p.err = ErrLost
	if _, ok := errors.AsType[*ProtocolError](err); ok {
		p.err = err
	}
	close(p.done)
}

// openTerminal makes the master that init sent the program's streams.
func (p *Process) openTerminal() {
	if p.tty {
		p.Stdin, p.Stdout = terminalInput{p.master}, p.master
	}
}

// terminalInput writes to a terminal without ever closing it.
type terminalInput struct{ io.Writer }

func (terminalInput) Close() error { return nil }

// abandon ends a call whose caller has gone before it was started.
func (p *Process) abandon() {
	r := &request{want: wire.TypeReply, answer: make(chan wire.Message, 1)}
	if err := p.link.send(r, &wire.Kill{Call: p.id}); err != nil && p.link.Err() == nil {
		// The program could go on unseen: without a link init ends everything
		// after the grace, and the owner learns of it at once.
		p.link.end(ErrLost)
	}
	go func() {
		<-p.done
		p.closeFiles()
	}()
}

func (p *Process) closeFiles() {
	if p.Stdin != nil {
		p.Stdin.Close()
	}
	for _, f := range []*os.File{p.Stdout, p.Stderr, p.master} {
		if f != nil {
			f.Close()
		}
	}
}

// Wait waits for the program to end, not for what it left behind or for its
// pipes to close. The error is ErrLost when the outcome cannot be known.
func (p *Process) Wait(ctx context.Context) (ExitStatus, error) {
	select {
	case <-p.done:
		return p.status, p.err
	default:
	}
	select {
	case <-p.done:
		return p.status, p.err
	case <-ctx.Done():
		return ExitStatus{}, ctx.Err()
	}
}

// Signal signals the program's process group; ErrNoProcess once it has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return ErrNoProcess
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), signalTimeout)
	defer cancel()
	return p.link.Signal(ctx, p.id, sig)
}

// Kill ends every process of the call and returns when none is left.
func (p *Process) Kill(ctx context.Context) error {
	select {
	case <-p.done:
		if p.err == nil && p.status.Background == 0 {
			return nil // nothing was left, and the id may be another call's
		}
	default:
	}
	return p.link.Kill(ctx, p.id)
}

var errNoTerminal = errors.New("the program has no terminal")

// Resize sets the size of the terminal, which tells the program by SIGWINCH.
func (p *Process) Resize(rows, cols uint16) error {
	if p.master == nil {
		return errNoTerminal
	}
	raw, err := p.master.SyscallConn()
	if err != nil {
		return err
	}
	var ioctlErr error
	err = raw.Control(func(fd uintptr) {
		ioctlErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	return errors.Join(err, ioctlErr)
}
