package guest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"syscall"

	"realm.dev/container/guest/wire"
)

// maxPending bounds the requests and programs that wait for init.
const maxPending = 1024

// Hello is what init said of itself.
type Hello struct {
	Protocol int
	PID      int      // init's, in the container
	Resumed  bool     // init had a link before this one
	Calls    []string // the calls that were still alive then
	OOMKnown bool     // init can see the counter of OOM kills
}

// Link is the connection to one init. Its methods may be called by any number
// of goroutines.
type Link struct {
	hello Hello
	conn  *wire.Conn
	done  chan struct{}

	mu      sync.Mutex
	lastID  uint32
	pending map[uint32]pending
	err     error
}

// pending is who waits for frames with one identifier.
type pending interface {
	// deliver takes a frame and says whether it was the last; with an error
	// nothing has been delivered. It must not block. Files left in the frame
	// are closed.
	deliver(f *wire.Frame, m wire.Message) (last bool, err error)
	// lost tells that nothing more will come.
	lost(err error)
}

func newLink(conn *wire.Conn, hello *wire.Hello) *Link {
	l := &Link{
		hello: Hello{
			Protocol: Version,
			PID:      int(hello.PID),
			Resumed:  hello.Resumed,
			Calls:    hello.Calls,
			OOMKnown: hello.OOMKnown,
		},
		conn:    conn,
		done:    make(chan struct{}),
		pending: map[uint32]pending{},
	}
	go l.read()
	return l
}

// Hello returns what init said of itself.
func (l *Link) Hello() Hello {
	h := l.hello
	h.Calls = slices.Clone(h.Calls)
	return h
}

// Done is closed when the link has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err is nil while the link lives, then ErrClosed, ErrLost or a [ProtocolError].
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes the link. Programs keep running: without a new link init ends
// the session after the owner's grace.
func (l *Link) Close() error {
	l.end(ErrClosed)
	<-l.done
	return nil
}

// end ends the link for the first reason given; the reader does the rest.
func (l *Link) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		l.conn.Close()
	}
}

// linkError is what an error of the connection means to callers.
func linkError(err error) error {
	if e, ok := errors.AsType[*ProtocolError](err); ok {
		return e
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return ErrLost
}

// read is the goroutine of the link: it delivers frames until the end.
func (l *Link) read() {
	var err error
	for err == nil {
		var f wire.Frame
		if f, err = l.conn.Read(); err == nil {
			err = l.deliver(&f)
			wire.CloseFiles(f.Files)
		}
	}
	l.end(linkError(err))
	l.conn.Discard()
	l.mu.Lock()
	waiting, reason := l.pending, l.err
	l.pending = nil
	l.mu.Unlock()
	for _, p := range waiting {
		p.lost(reason)
	}
	close(l.done)
}

func (l *Link) deliver(f *wire.Frame) error {
	m, err := wire.Decode(f.Type, f.Payload)
	if err != nil {
		return err
	}
	if len(f.Files) > 0 && f.Type != wire.TypeStarted {
		return &ProtocolError{Reason: "unexpected descriptors"}
	}
	l.mu.Lock()
	p := l.pending[f.ID]
	l.mu.Unlock()
	if p == nil {
		return &ProtocolError{Reason: "answer to nothing"}
	}
	last, err := p.deliver(f, m)
	if err == nil && last {
		l.forget(f.ID)
	}
	return err
}

func (l *Link) forget(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pending, id)
}

// send registers p and sends m. Whatever m needs is registered before the
// first byte leaves.
func (l *Link) send(p pending, m wire.Message, files ...int) error {
	id, err := l.register(p)
	if err != nil {
		return err
	}
	err = l.conn.Write(id, m, files...)
	if _, ok := errors.AsType[*wire.Error](err); ok {
		l.forget(id) // over a limit: nothing was sent
		return err
	}
	if err != nil {
		l.end(ErrLost)
		return l.Err()
	}
	return nil
}

func (l *Link) register(p pending) (uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return 0, l.err
	case len(l.pending) >= maxPending:
		return 0, ErrBusy
	}
	for l.lastID++; l.pending[l.lastID] != nil; l.lastID++ {
	}
	l.pending[l.lastID] = p
	return l.lastID, nil
}

// request waits for one answer, of type want or a reply.
type request struct {
	want   wire.Type
	answer chan wire.Message // holds one: nobody may be waiting any more
}

func (r *request) deliver(_ *wire.Frame, m wire.Message) (bool, error) {
	if t := wire.TypeOf(m); t != r.want && t != wire.TypeReply {
		return false, &ProtocolError{Reason: "unexpected answer"}
	}
	r.answer <- m
	return true, nil
}

func (r *request) lost(error) { close(r.answer) }

// call sends m and waits for the answer. A reply where content was due is an
// error, and so is one with an error number.
func (l *Link) call(ctx context.Context, want wire.Type, m wire.Message) (wire.Message, error) {
	r := &request{want: want, answer: make(chan wire.Message, 1)}
	if err := l.send(r, m); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case answer, ok := <-r.answer:
		if !ok {
			return nil, l.Err()
		}
		reply, ok := answer.(*wire.Reply)
		if !ok {
			return answer, nil
		}
		if reply.Errno == 0 && want != wire.TypeReply {
			return nil, &ProtocolError{Reason: "empty answer"}
		}
		return nil, replyError(reply.Errno)
	}
}

// Signal signals the process group of a call's program; ErrNoProcess when it
// has ended.
func (l *Link) Signal(ctx context.Context, callID string, sig syscall.Signal) error {
	_, err := l.call(ctx, wire.TypeReply, &wire.Signal{Call: callID, Signal: uint8(sig)})
	return err
}

// Kill ends every process of a call, also one that was started over an earlier
// link, and returns when none is left. A call that is gone is no error.
func (l *Link) Kill(ctx context.Context, callID string) error {
	_, err := l.call(ctx, wire.TypeReply, &wire.Kill{Call: callID})
	return err
}

// Reset ends every process but init.
func (l *Link) Reset(ctx context.Context) error {
	_, err := l.call(ctx, wire.TypeReply, &wire.Reset{})
	return err
}

// Shutdown has init end, which ends everything in the container.
func (l *Link) Shutdown(ctx context.Context) error {
	_, err := l.call(ctx, wire.TypeReply, &wire.Shutdown{})
	if errors.Is(err, ErrLost) {
		return nil // it was faster than its answer
	}
	return err
}
