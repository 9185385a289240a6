package realm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest"
	"realm.dev/contract"
)

const (
	// killGrace is between SIGTERM and the kill of a call's whole tree.
	killGrace = 2 * time.Second
	// killBudget bounds the kill itself.
	killBudget = 10 * time.Second
	// pipeGrace is how long the streams must have been empty after the program's
	// end while something that it left behind still holds them.
	pipeGrace = 200 * time.Millisecond
	// drainLimit bounds the wait for a reader of the output that does not read.
	drainLimit = 10 * time.Minute
)

// exec runs one program to its end and returns what it printed. The call's
// context ending kills the program's whole tree.
func (s *Session) exec(ctx context.Context, b *box, id string, call *contract.ExecCall, out OutputFunc) contract.ToolResult {
	fail := func(err error) contract.ToolResult {
		return contract.ToolResult{CallID: id, Error: contract.AsError(err)}
	}
	stdin, err := stdinOf(call)
	if err != nil {
		return fail(err)
	}
	leave, err := s.enterExec(ctx)
	if err != nil {
		return fail(err)
	}
	defer leave()
	limits := s.req.Policy.Policy().Limits
	timeout := time.Duration(cmp.Or(call.TimeoutMs, limits.ExecMs)) * time.Millisecond
	began := time.Now()
	req := s.execRequest(b, id, argvOf(call), call.Cwd, s.programEnv(b, call.Env, call.TTY))
	req.Tty, req.NoStdin = call.TTY, stdin == ""
	p, err := b.link.Exec(ctx, req)
	if err != nil {
		return fail(startError(err))
	}
	stdout := newCapture("stdout", limits.OutputBytes, s.store.spill("stdout"), out)
	stderr := newCapture("stderr", limits.OutputBytes, s.store.spill("stderr"), out)
	drained := drainAll(p, stdout, stderr)
	go feed(p, strings.NewReader(stdin))
	st, werr := s.await(ctx, p, timeout)
	drained.await(st.Background > 0, s.quit)
	res := contract.ToolResult{CallID: id, Exec: &contract.ExecResult{
		Stdout: stdout.result(), Stderr: stderr.result(),
		DurationMs: time.Since(began).Milliseconds(), Background: st.Background,
	}}
	settle(&res, st, werr)
	return res
}

func argvOf(call *contract.ExecCall) []string {
	if call.Shell {
		return []string{"/bin/sh", "-c", call.Script}
	}
	return call.Argv
}

func stdinOf(call *contract.ExecCall) (string, error) {
	raw, err := contract.DecodeContent(call.Stdin, call.StdinEncoding)
	return string(raw), err
}

// enterExec waits for a slot; a call that gets none in time has not run.
func (s *Session) enterExec(ctx context.Context) (leave func(), err error) {
	select {
	case s.execs <- struct{}{}:
		return func() { <-s.execs }, nil
	default:
	}
	wait := time.NewTimer(time.Duration(s.req.Policy.Policy().ToolQueueMs) * time.Millisecond)
	defer wait.Stop()
	select {
	case s.execs <- struct{}{}:
		return func() { <-s.execs }, nil
	case <-wait.C:
		return nil, contract.Errorf(contract.QueueTimeout, "%d programs are running already; the call did not run", maxExecs).
			WithHint("wait for one to end, or raise toolQueueMs in the policy")
	case <-ctx.Done():
		return nil, contract.Errorf(contract.SessionLost, "the caller went away; the call did not run").WithCause(context.Cause(ctx))
	case <-s.quit:
		return nil, contract.Errorf(contract.SessionState, "the session is over; the call did not run")
	}
}

// await waits for the program's end. At its deadline, or when the caller is
// gone, the program gets SIGTERM and its whole tree is killed killGrace later.
func (s *Session) await(ctx context.Context, p *guest.Process, timeout time.Duration) (guest.ExitStatus, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		contract.Errorf(contract.ExecTimeout, "still running after %s", timeout))
	defer cancel()
	st, err := p.Wait(ctx)
	if err == nil || ctx.Err() == nil {
		return st, err
	}
	cause := context.Cause(ctx)
	if st, err = s.kill(p, syscall.SIGTERM); err != nil {
		return st, err
	}
	if e, ok := errors.AsType[*contract.Error](cause); ok && e.Code == contract.ExecTimeout {
		return st, e
	}
	return st, contract.Errorf(contract.SessionLost, "the caller went away; the program was killed").WithCause(cause)
}

// kill sends sig to the program and, killGrace later, kills all that is left of
// its tree.
func (s *Session) kill(p *guest.Process, sig syscall.Signal) (guest.ExitStatus, error) {
	_ = p.Signal(sig)
	soft, cancel := context.WithTimeout(s.mgr.ctx, killGrace)
	defer cancel()
	_, _ = p.Wait(soft)
	hard, cancel := context.WithTimeout(s.mgr.ctx, killBudget)
	defer cancel()
	if err := p.Kill(hard); err != nil && !errors.Is(err, guest.ErrNoProcess) {
		return guest.ExitStatus{}, err
	}
	return p.Wait(hard)
}

// settle writes how the program ended into res. Nothing is guessed: what nobody
// knows is `lost`, with a null exit code.
func settle(res *contract.ToolResult, st guest.ExitStatus, err error) {
	code := contract.CodeOf(err)
	if err != nil {
		if code == contract.Internal || errors.Is(err, guest.ErrLost) || errors.Is(err, guest.ErrClosed) {
			err = contract.Errorf(contract.SessionLost, "the session ended before the program did").WithCause(err)
		}
		res.Error = contract.AsError(err)
	}
	e := res.Exec
	switch {
	case code == contract.ExecTimeout:
		e.Outcome = contract.TimedOut
	case err != nil:
		e.Outcome = contract.Lost
	case st.OOMKnown && st.OOM && !st.Exited && st.Signal == syscall.SIGKILL:
		e.Outcome, e.Signal = contract.OOM, signalName(st.Signal)
	case st.Exited:
		e.Outcome, e.ExitCode = contract.Exited, &st.Code
	default:
		e.Outcome, e.Signal = contract.Signaled, signalName(st.Signal)
	}
}

func signalName(sig syscall.Signal) string {
	if n := unix.SignalName(sig); n != "" {
		return n
	}
	return "SIG" + sig.String()
}

// startError says why a program did not start, in the catalogue's words.
func startError(err error) error {
	se, ok := errors.AsType[*guest.StartError](err)
	if !ok {
		return contract.Errorf(contract.SessionLost, "the session ended before the program was started").WithCause(err)
	}
	switch se.Errno {
	case syscall.E2BIG:
		return contract.Errorf(contract.LimitExceeded, "the arguments and environment are too long for the kernel").WithCause(err)
	case syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE:
		return contract.Errorf(contract.LimitExceeded, "the session is out of processes, memory or files").WithCause(err).
			WithHint("raise limits.pids or limits.memoryBytes in the policy, or end what runs")
	case syscall.EEXIST:
		return contract.Errorf(contract.SessionState, "a call of this id is running").WithCause(err)
	}
	e := contract.Errorf(contract.ExecNotStarted, "the program could not be started").WithCause(err)
	e.Errno = unix.ErrnoName(se.Errno)
	switch {
	case se.Phase == guest.PhaseCwd:
		e.Detail, e.Errno = "the working directory cannot be entered", ""
	case se.Errno == syscall.ENOENT:
		e.Detail = "no such program in the session"
		e.Hint = "with image host a program must be below /usr or in the workspace; add its directory to mounts in the policy"
	case se.Errno == syscall.EACCES || se.Errno == syscall.ENOEXEC:
		e.Detail = "the program cannot be executed"
	}
	return e
}

// drains are the streams of one program on their way into captures. They are
// read to their end even after the result was taken.
type drains struct {
	streams []stream
	done    chan struct{} // closed when all have ended
}

type stream struct {
	file *os.File
	into *capture
}

func drainAll(p *guest.Process, stdout, stderr *capture) *drains {
	d := &drains{done: make(chan struct{})}
	var wg sync.WaitGroup
	for _, st := range []stream{{p.Stdout, stdout}, {p.Stderr, stderr}} {
		if st.file != nil {
			d.streams = append(d.streams, st)
			wg.Go(func() { st.into.drain(st.file); _ = st.file.Close() })
		}
	}
	go func() { wg.Wait(); close(d.done) }()
	return d
}

// await waits, after the program's end, until all that it printed is in: to the
// end of the streams, or, when something that it left behind still holds them,
// until they have been empty for a while. Whoever takes the output sets the
// pace; over is closed when the session is.
func (d *drains) await(leftSomething bool, over <-chan struct{}) {
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	tick := time.NewTicker(pipeGrace / 4)
	defer tick.Stop()
	for calm := 0; !leftSomething || calm < 4; {
		select {
		case <-d.done:
			return
		case <-over:
			return
		case <-limit.C:
			return
		case <-tick.C:
			if d.empty() {
				calm++
			} else {
				calm = 0
			}
		}
	}
}

// empty reports whether nothing is on its way: no byte in a pipe, none being
// taken.
func (d *drains) empty() bool {
	for _, st := range d.streams {
		if st.into.busy() || buffered(st.file) > 0 {
			return false
		}
	}
	return true
}

// buffered is how many bytes wait in a pipe; 0 when it is closed.
func buffered(f *os.File) (n int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n
}

// feed gives the program its input and then the end of it. A program that does
// not read is no error.
func feed(p *guest.Process, r io.Reader) {
	if p.Stdin == nil {
		return
	}
	_, _ = io.Copy(p.Stdin, r)
	_ = p.Stdin.Close()
}

// execRequest fills in what is the same for every program of the session.
func (s *Session) execRequest(b *box, id string, argv []string, cwd string, env []string) guest.ExecRequest {
	uid, gid := b.spec.User.IDs()
	hostUID, hostGID := b.spec.User.HostIDs(s.mgr.info.Rootless)
	return guest.ExecRequest{
		ID: id, Argv: argv, Env: env, Dir: path.Join(b.spec.Workspace.Destination, cwd),
		UID: uid, GID: gid, HostUID: hostUID, HostGID: hostGID, Home: homeInside,
	}
}
