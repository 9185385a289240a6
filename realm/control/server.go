package control

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"realm.dev/contract"
)

// Output takes what a running call prints: in order for each stream
// ("stdout", "stderr"), with the offset of its first byte. It may be called
// from several goroutines and keeps nothing of p.
type Output = func(stream string, offset int64, p []byte)

// Session is what the server needs of a session.
type Session interface {
	// Record is the record as it is on disk.
	Record() contract.SessionRecord
	// Detail is all that is known of the session.
	Detail() contract.SessionDetail
	// Watch sends the current record and then one for each transition. The
	// channel is closed after the terminal record, or when ctx ends.
	Watch(ctx context.Context) <-chan contract.SessionRecord
	// Done is closed when the session is terminal and Record says so.
	Done() <-chan struct{}
	// Stop ends the session and returns its terminal record, again and again.
	// A grace of 0 is the session's default.
	Stop(ctx context.Context, grace time.Duration) (contract.SessionRecord, error)
	// Call runs one tool call. A call id runs at most once: a replayed one
	// gets the first one's result. The call ends when ctx does. Out may be nil.
	Call(ctx context.Context, callID string, call *contract.ToolCall, out Output) contract.ToolResult
}

// Options bound what a client can take. The zero value of each is its default.
type Options struct {
	Logger *slog.Logger

	// Linger is how long a terminal record stays on the socket.
	Linger time.Duration // 2 s
	// HeaderTimeout bounds the time from connect to the end of the header.
	HeaderTimeout time.Duration // 5 s
	// BodyTimeout bounds the time from there to the end of the body.
	BodyTimeout time.Duration // 30 s
	// WriteTimeout bounds each write to a client.
	WriteTimeout time.Duration // 10 s
	// StallTimeout is how long a call with a key waits for a client that does
	// not read its output, before its stream is cut. The client can come back.
	StallTimeout time.Duration // 2 s
	// PauseTimeout is the same for a call without a key. Its client is all it
	// runs for, and may be a person's pager: it waits as a pipe would.
	PauseTimeout time.Duration // 10 min

	MaxConns       int   // 128 connections at once
	MaxHeaderBytes int   // 16 KiB
	MaxBodyBytes   int64 // 24 MiB
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.Linger, 2*time.Second)
	setDefault(&o.HeaderTimeout, 5*time.Second)
	setDefault(&o.BodyTimeout, 30*time.Second)
	setDefault(&o.WriteTimeout, 10*time.Second)
	setDefault(&o.StallTimeout, 2*time.Second)
	setDefault(&o.PauseTimeout, 10*time.Minute)
	setDefault(&o.MaxConns, 128)
	setDefault(&o.MaxHeaderBytes, 16<<10)
	setDefault(&o.MaxBodyBytes, contract.MaxCallBytes)
	return o
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

// Server serves one session until it has ended.
type Server struct {
	session  Session
	opts     Options
	listener *Listener
	http     *http.Server

	// running is the context of calls that outlive their connection.
	running context.Context //nolint:containedctx // the server's own lifetime, not a caller's
	cut     context.CancelCauseFunc
	ending  chan struct{} // closed when the session stops: no call waits for a reader then

	handlers  sync.WaitGroup
	closeOnce sync.Once
	closing   chan struct{} // closed when Close begins
	closed    chan struct{} // closed when Close has ended
	closeErr  error
	done      chan struct{}
}

// Serve begins to serve s on l, which it owns from now on. When the session
// is terminal the server stays for Options.Linger and then closes itself.
func Serve(l *Listener, s Session, o Options) *Server {
	o = o.withDefaults()
	srv := &Server{
		session:  s,
		opts:     o,
		listener: l,
		ending:   make(chan struct{}),
		closing:  make(chan struct{}),
		closed:   make(chan struct{}),
		done:     make(chan struct{}),
	}
	srv.running, srv.cut = context.WithCancelCause(context.Background())
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	srv.http = &http.Server{
		Handler:           srv.handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: o.HeaderTimeout,
		// headerGuard has the exact limit and answers with a typed error.
		MaxHeaderBytes:               o.MaxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	// A connection is cheap on this machine and carries one request: nothing
	// can be smuggled behind a body, and nobody holds a connection for later.
	srv.http.SetKeepAlivesEnabled(false)

	var serving sync.WaitGroup
	serving.Go(func() {
		// It returns when the listener closes; Close reports what went wrong.
		if err := srv.http.Serve(newGate(l, o)); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			o.Logger.Error("control socket stopped", "err", err)
		}
	})
	serving.Go(srv.awaitEnding)
	serving.Go(srv.closeWithSession)
	go func() {
		serving.Wait()
		<-srv.closed
		srv.handlers.Wait()
		close(srv.done)
	}()
	return srv
}

// Done is closed when the socket is gone from disk and no handler runs.
func (s *Server) Done() <-chan struct{} { return s.done }

// awaitEnding closes ending when the session leaves its working states.
func (s *Server) awaitEnding() {
	defer close(s.ending)
	ctx, cancel := context.WithCancel(s.running)
	defer cancel()
	for record := range s.session.Watch(ctx) {
		if record.State == contract.Stopping || record.State.Terminal() {
			return
		}
	}
}

func (s *Server) closeWithSession() {
	select {
	case <-s.closing:
		return
	case <-s.session.Done():
	}
	linger := time.NewTimer(s.opts.Linger)
	defer linger.Stop()
	select {
	case <-s.closing:
		return
	case <-linger.C:
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.WriteTimeout)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		s.opts.Logger.Warn("control socket closed late", "err", err)
	}
}

// Close removes the socket and takes no new request. Running ones may finish
// until ctx ends; then they are cut. Closing again waits for the first.
func (s *Server) Close(ctx context.Context) error {
	s.closeOnce.Do(func() {
		close(s.closing)
		// Shutdown does not know the listener before Serve has run.
		s.closeErr = s.listener.Close()
		err := s.http.Shutdown(ctx)
		s.cut(contract.Errorf(contract.SessionLost, "the control socket was closed"))
		if err != nil {
			s.closeErr = contract.Errorf(contract.Internal, "control socket: requests were cut at close").WithCause(err)
			_ = s.http.Close() // what it could say has been said
		}
		close(s.closed)
	})
	<-s.closed
	return s.closeErr
}

// gate is the last thing before HTTP: it caps the connections and puts the
// header guard on each.
type gate struct {
	*Listener
	opts Options
	free chan struct{}
}

func newGate(l *Listener, o Options) *gate {
	g := &gate{Listener: l, opts: o, free: make(chan struct{}, o.MaxConns)}
	for range o.MaxConns {
		g.free <- struct{}{}
	}
	return g
}

// Accept returns the next connection below the cap; one above it is answered
// and closed at once, so that it does not wait without knowing why.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		guarded := &headerGuard{Conn: c, limit: g.opts.MaxHeaderBytes, timeout: g.opts.WriteTimeout}
		select {
		case <-g.free:
			return &countedConn{headerGuard: guarded, free: g.free}, nil
		default:
			guarded.refuse(contract.Errorf(contract.LimitExceeded, "control socket: %d connections are open", g.opts.MaxConns))
			c.Close()
		}
	}
}

// countedConn gives its place back when it is closed.
type countedConn struct {
	*headerGuard
	free chan<- struct{}
	once sync.Once
}

// Close closes the connection.
func (c *countedConn) Close() error {
	defer c.once.Do(func() { c.free <- struct{}{} })
	return c.headerGuard.Close()
}
