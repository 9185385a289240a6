package realm

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"realm.dev/container/guest"
	"realm.dev/contract"
)

// runID is the call id of the attached program.
const runID = "run"

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }

// Attached is a program that has a person, or a pipeline, at its other end.
type Attached struct {
	Argv    []string
	Env     map[string]string
	Cwd     string    // below the workspace; "" is its root
	Stdin   io.Reader // nil: no input
	Stdout  io.Writer
	Stderr  io.Writer
	TTY     bool // one pseudo-terminal instead of three pipes
	Size    Size
	Resize  <-chan Size      // with TTY
	Signals <-chan os.Signal // passed on to the program's process group
}

// Run runs the program of `realm run`: unlike an exec call it has no time limit
// and its output is not kept. When it has ended, what it left behind is killed.
// Its end is the session's outcome.
func (s *Session) Run(ctx context.Context, a Attached) (contract.Outcome, error) {
	b, err := s.current()
	if err != nil {
		return contract.Outcome{}, err
	}
	req := s.execRequest(b, runID, a.Argv, a.Cwd, s.programEnv(b, a.Env, a.TTY))
	req.Tty, req.Rows, req.Cols = a.TTY, a.Size.Rows, a.Size.Cols
	req.NoStdin = a.Stdin == nil
	call := &contract.ToolCall{Exec: &contract.ExecCall{Argv: a.Argv, Cwd: a.Cwd, TTY: a.TTY}}
	input := sha256.Sum256([]byte(strings.Join(a.Argv, "\x00")))
	claim, first, err := s.calls.begin(runID, input)
	if err != nil {
		return contract.Outcome{}, err
	}
	if !first {
		return contract.Outcome{}, contract.Errorf(contract.SessionState, "the session's program has been run, or a call took its id")
	}
	res := contract.ToolResult{CallID: runID, Error: contract.Errorf(contract.Internal, "the program did not end")}
	defer func() { s.calls.end(claim, &res) }()
	if err := s.store.intent(s.id, runID, call, input); err != nil {
		res.Error = contract.AsError(err)
		return contract.Outcome{}, err
	}
	began := time.Now()
	res.Error = nil
	p, err := b.link.Exec(ctx, req)
	if err != nil {
		res.Error = contract.AsError(startError(err))
	} else {
		st, err := s.attend(ctx, p, a)
		res.Exec = &contract.ExecResult{DurationMs: time.Since(began).Milliseconds()}
		settle(&res, st, err)
		if contract.CodeOf(err) != contract.SessionLost && res.Error != nil && s.stopping() {
			res.Error.Detail = "the session was stopped before the program ended"
		}
	}
	if err := s.store.outcome(s.id, &res); err != nil {
		s.log.Error("the program's outcome could not be journalled", "err", err)
	}
	return s.conclude(&res)
}

// stopping reports whether somebody asked the session to stop.
func (s *Session) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.detail.Record.State == contract.Stopping || s.detail.Record.State == contract.Stopped
}

// conclude makes the program's end the session's outcome.
func (s *Session) conclude(res *contract.ToolResult) (contract.Outcome, error) {
	o := contract.Outcome{Source: contract.FromWorkload}
	if res.Exec != nil {
		o.ExitCode, o.Signal, o.Reason = res.Exec.ExitCode, res.Exec.Signal, string(res.Exec.Outcome)
	}
	if res.Error != nil {
		o.Source, o.Error, o.Reason = contract.FromRealm, res.Error, "not run to its end"
	}
	s.mu.Lock()
	s.detail.Outcome = &o
	s.mu.Unlock()
	if res.Error != nil {
		return o, res.Error
	}
	return o, nil
}

// attend carries bytes, signals and sizes until the program has ended and its
// output is out.
func (s *Session) attend(ctx context.Context, p *guest.Process, a Attached) (guest.ExitStatus, error) {
	var out sync.WaitGroup
	carry := func(w io.Writer, f *os.File) {
		if f != nil {
			out.Go(func() { _, _ = io.Copy(w, f); _, _ = io.Copy(io.Discard, f); _ = f.Close() })
		}
	}
	carry(a.Stdout, p.Stdout)
	carry(a.Stderr, p.Stderr)
	if a.Stdin != nil {
		// Ends with the process: a read of a terminal cannot be interrupted.
		go feedTerminal(p, a)
	}
	ended := make(chan struct{})
	defer close(ended)
	go forward(p, a, ended)
	st, err := p.Wait(ctx)
	interrupted := err != nil && ctx.Err() != nil
	if interrupted {
		st, err = s.kill(p, syscall.SIGHUP)
	} else if kerr := s.killRest(p); kerr != nil {
		s.log.Warn("what the program left behind could not be killed", "err", kerr)
	}
	// Nobody holds the streams any more, so they end; the reader of our output
	// may be slow and sets the pace, but not that of an interruption.
	drained := make(chan struct{})
	go func() { out.Wait(); close(drained) }()
	patience := drainLimit
	if interrupted {
		patience = killGrace
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case <-drained:
	case <-limit.C:
	}
	if interrupted && err == nil {
		err = contract.Errorf(contract.SessionLost, "interrupted; the program was killed").WithCause(context.Cause(ctx))
	}
	return st, err
}

// killRest kills what a program that has ended left running.
func (s *Session) killRest(p *guest.Process) error {
	ctx, cancel := context.WithTimeout(s.mgr.ctx, killBudget)
	defer cancel()
	if err := p.Kill(ctx); err != nil && !errors.Is(err, guest.ErrNoProcess) && !errors.Is(err, guest.ErrLost) {
		return err
	}
	return nil
}

func feedTerminal(p *guest.Process, a Attached) {
	_, err := io.Copy(p.Stdin, a.Stdin)
	if err == nil && a.TTY {
		_, _ = p.Stdin.Write([]byte{4}) // end of file, as a terminal says it
	}
	_ = p.Stdin.Close()
}

// forward passes signals and sizes on until the program has ended.
func forward(p *guest.Process, a Attached, ended <-chan struct{}) {
	for {
		select {
		case sig, ok := <-a.Signals:
			if !ok {
				a.Signals = nil
			} else if n, ok := sig.(syscall.Signal); ok {
				_ = p.Signal(n)
			}
		case size, ok := <-a.Resize:
			if !ok {
				a.Resize = nil
			} else {
				_ = p.Resize(size.Rows, size.Cols)
			}
		case <-ended:
			return
		}
	}
}
