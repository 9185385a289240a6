package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// endedBy is why a run was ended from outside.
type endedBy struct{ sig unix.Signal }

func (e endedBy) Error() string { return "ended by " + unix.SignalName(e.sig) }

// attachment is a running command: what gets its signals, and how it is ended.
type attachment struct {
	signals chan<- os.Signal
	resized func()
	resumed func()
	stop    func() // ends the session; waits
}

// signalWatch turns what comes from outside into the end of a run, once. Before
// a command is attached every signal ends the run by cancelling ctx; afterwards
// the first SIGINT is the command's.
type signalWatch struct {
	ctx    context.Context //nolint:containedctx // the life of the run that is watched
	cancel context.CancelCauseFunc
	raw    chan os.Signal
	quit   chan struct{}
	over   sync.WaitGroup

	mu          sync.Mutex
	attached    *attachment
	interrupted bool
}

// watchSignals takes the process's signals until close. SIGPIPE is taken so that
// a reader that went away is a write error, after which things are put away.
func watchSignals(ctx context.Context) *signalWatch {
	w := &signalWatch{raw: make(chan os.Signal, 16), quit: make(chan struct{})}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	sigs := []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGQUIT, unix.SIGPIPE, unix.SIGWINCH, unix.SIGCONT}
	if !signal.Ignored(unix.SIGHUP) { // nohup
		sigs = append(sigs, unix.SIGHUP)
	}
	signal.Notify(w.raw, sigs...)
	w.over.Go(w.loop)
	return w
}

func (w *signalWatch) loop() {
	for {
		select {
		case s := <-w.raw:
			if sig, ok := s.(unix.Signal); ok {
				w.take(sig)
			}
		case <-w.quit:
			return
		}
	}
}

// take decides what one signal means.
func (w *signalWatch) take(sig unix.Signal) {
	w.mu.Lock()
	at := w.attached
	again := w.interrupted
	if sig == unix.SIGINT && at != nil {
		w.interrupted = true
	}
	w.mu.Unlock()
	switch {
	case sig == unix.SIGPIPE:
	case sig == unix.SIGWINCH || sig == unix.SIGCONT:
		if at != nil {
			if sig == unix.SIGCONT {
				at.resumed()
			}
			at.resized()
		}
	case at != nil && (sig == unix.SIGQUIT || sig == unix.SIGINT && !again):
		select {
		case at.signals <- sig:
		default: // the command takes none any more
		}
	default:
		w.end(endedBy{sig})
	}
}

// end ends the run because of cause; only the first one counts. It does not
// wait: the caller may be what the command's end waits for.
func (w *signalWatch) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil {
		return
	}
	w.cancel(cause)
	if w.attached != nil {
		w.over.Go(w.attached.stop)
	}
}

// attach hands the signals to a command. The returned function takes them back.
// A run that has ended meanwhile ends now.
func (w *signalWatch) attach(at attachment) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attached = &at
	if w.ctx.Err() != nil {
		w.over.Go(at.stop)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.attached = nil
	}
}

// verdict is err, or the signal that is behind it. A session that was ended by
// a signal has no other story.
func (w *signalWatch) verdict(err error) error {
	cause := context.Cause(w.ctx)
	if by, ok := errors.AsType[endedBy](cause); ok {
		return exitWith(exitSignal + int(by.sig))
	}
	if cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// close gives the signals back and waits for what they set off.
func (w *signalWatch) close() {
	signal.Stop(w.raw)
	close(w.quit)
	w.over.Wait()
	w.cancel(nil)
}

// interruptible runs what a signal may cut short, and ends with the signal's
// exit code then.
func interruptible(ctx context.Context, f func(context.Context) error) error {
	w := watchSignals(ctx)
	defer w.close()
	return w.verdict(f(w.ctx))
}
