package pid1

import (
	"bytes"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

const (
	// redialEvery is the pause between two attempts to reach realm.
	redialEvery = 200 * time.Millisecond
	// defaultOwnerGrace holds until realm has told its own.
	defaultOwnerGrace = 60 * time.Second
	// maxRequests bounds the requests of a link that are being answered.
	maxRequests = 64
)

// errShutdown ends serving: realm asked for it.
var errShutdown = errors.New("shutdown")

// serve keeps the link to realm until realm ends the session, or has been away
// for longer than the grace.
func (s *supervisor) serve(socket string) {
	grace, resumed := defaultOwnerGrace, false
	for lost := time.Now(); time.Since(lost) < grace; {
		conn, err := dial(socket)
		if err == nil {
			var l *link
			if l, err = s.meet(conn, resumed, &grace, lost); err == nil {
				resumed = true
				err = l.serve()
				lost = time.Now()
			}
			conn.Close()
			conn.Discard()
		}
		if errors.Is(err, errShutdown) {
			return
		}
		time.Sleep(redialEvery)
	}
}

// dial connects to realm's socket. The listener has to be of another pid
// namespace (it shows as 0): nothing inside the container can pose as realm.
func dial(socket string) (*wire.Conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: socket})
	if err == nil {
		var peer *unix.Ucred
		if peer, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil && peer.Pid != 0 {
			err = unix.EPERM
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return wire.NewConn(fd)
}

// meet exchanges the first frames. Realm may take its time to accept, but no
// longer than the grace that is left.
func (s *supervisor) meet(conn *wire.Conn, resumed bool, grace *time.Duration, lost time.Time) (*link, error) {
	if err := conn.Write(0, s.hello(resumed)); err != nil {
		return nil, err
	}
	if err := conn.SetReadDeadline(lost.Add(*grace)); err != nil {
		return nil, err
	}
	f, err := conn.Read()
	if err != nil {
		return nil, err
	}
	var m wire.Welcome
	if f.Type != wire.TypeWelcome || wire.DecodeInto(&m, f.Payload) != nil {
		return nil, &wire.Error{Reason: "no welcome"}
	}
	*grace = time.Duration(m.OwnerGraceMillis) * time.Millisecond
	return &link{s: s, conn: conn, slots: make(chan struct{}, maxRequests)}, conn.SetReadDeadline(time.Time{})
}

// link is one connection to realm.
type link struct {
	s     *supervisor
	conn  *wire.Conn
	slots chan struct{}
}

// send answers; an error shows when the next frame is read.
func (l *link) send(id uint32, m wire.Message, files ...int) {
	_ = l.conn.Write(id, m, files...)
}

func (l *link) reply(id uint32, errno unix.Errno) {
	l.send(id, &wire.Reply{Errno: uint32(errno)})
}

// serve answers frames until the link is lost or realm asks to shut down.
func (l *link) serve() error {
	for {
		f, err := l.conn.Read()
		if err != nil {
			return err
		}
		m, err := wire.Decode(f.Type, f.Payload)
		if err == nil {
			err = l.dispatch(f, m)
		}
		if err != nil {
			wire.CloseFiles(f.Files)
			return err
		}
	}
}

func (l *link) dispatch(f wire.Frame, m wire.Message) error {
	if m, ok := m.(*wire.Exec); ok {
		return l.exec(f, m)
	}
	if len(f.Files) > 0 {
		return &wire.Error{Reason: "unexpected descriptors"}
	}
	var answer func()
	switch m := m.(type) {
	case *wire.Shutdown:
		l.reply(f.ID, 0)
		return errShutdown
	case *wire.Signal:
		answer = func() { l.signal(f.ID, m) }
	case *wire.Kill:
		answer = func() { l.kill(f.ID, m) }
	case *wire.List:
		answer = func() { l.list(f.ID) }
	case *wire.Probe:
		answer = func() { l.probe(f.ID, m) }
	case *wire.Reset:
		answer = func() { l.reply(f.ID, l.s.reset()) }
	default:
		return &wire.Error{Reason: "unexpected frame type"}
	}
	select {
	case l.slots <- struct{}{}:
		go func() {
			defer func() { <-l.slots }()
			answer()
		}()
	default:
		l.reply(f.ID, unix.EAGAIN)
	}
	return nil
}

// exec registers the call before the next frame is read and runs it beside.
func (l *link) exec(f wire.Frame, m *wire.Exec) error {
	want := 3
	if m.TTY {
		want = 0
	} else if m.NoStdin {
		want = 2
	}
	if len(f.Files) != want {
		return &wire.Error{Reason: "wrong number of descriptors"}
	}
	c := &call{id: m.Call, frame: f.ID, link: l, gone: make(chan struct{})}
	if failed := l.s.add(c); failed != nil {
		wire.CloseFiles(f.Files)
		l.send(f.ID, failed.exited())
		return nil
	}
	f.Payload = bytes.Clone(f.Payload)
	go l.s.run(c, f, len(m.Rlimits) > 0)
	return nil
}

func (l *link) signal(id uint32, m *wire.Signal) {
	c := l.s.find(m.Call)
	if c == nil {
		l.reply(id, unix.ESRCH)
		return
	}
	l.reply(id, c.signal(unix.Signal(m.Signal)))
}

func (l *link) kill(id uint32, m *wire.Kill) {
	c := l.s.find(m.Call)
	if c == nil {
		l.reply(id, 0)
		return
	}
	l.reply(id, c.kill())
}

func (l *link) list(id uint32) {
	list, err := l.s.processes()
	if err != nil {
		l.reply(id, errnoOf(err))
		return
	}
	l.send(id, list)
}

// errnoOf is the error number of err, 0 for none.
func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EIO
}
