package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/internal/term"
	"realm.dev/realm"
)

// console is this program's streams as a command in a session gets them: one
// terminal, or three pipes.
type console struct {
	watch   *signalWatch
	in      io.Reader
	out     io.Writer
	err     io.Writer
	tty     *os.File // nil: pipes
	raw     *term.Raw
	size    realm.Size
	resize  chan realm.Size
	signals chan os.Signal
	flush   []func() error
}

// console makes the command's end of the streams. The command has a terminal
// when it would read from one and write to one; that is then in raw mode until
// restore. With --json its output goes to standard error.
func (a *app) console(watch *signalWatch) (*console, error) {
	c := &console{watch: watch, in: a.In, signals: make(chan os.Signal, 8), resize: make(chan realm.Size, 1)}
	out := a.Out
	if a.json {
		out = a.Err
	}
	tty, in := term.IsTerminal(a.In)
	_, shown := term.IsTerminal(out)
	if !in || !shown {
		c.out, c.err = c.pipe(out), c.pipe(a.Err)
		return c, nil
	}
	raw, err := term.MakeRaw(tty)
	if err != nil {
		return nil, err
	}
	c.tty, c.raw = tty, raw
	c.size, _ = sizeOf(tty)
	k := &keys{now: time.Now, end: func() { watch.end(endedBy{unix.SIGINT}) }}
	c.in = k.reader(hangup{a.In, func() { watch.end(endedBy{unix.SIGHUP}) }})
	c.out = k.writer(&sink{w: out, broken: watch.end})
	return c, nil
}

// pipe is where bytes go that the command wrote to no terminal.
func (c *console) pipe(w io.Writer) io.Writer {
	safe, flush := show(w)
	c.flush = append(c.flush, flush)
	return &sink{w: safe, broken: c.watch.end}
}

// attached is the console as Session.Run wants it.
func (c *console) attached(argv []string) realm.Attached {
	return realm.Attached{
		Argv: argv, Stdin: c.in, Stdout: c.out, Stderr: c.err,
		TTY: c.tty != nil, Size: c.size, Resize: c.resize, Signals: c.signals, Env: c.env(),
	}
}

// env tells a command which terminal it has; nothing else of this process's
// environment reaches it by itself.
func (c *console) env() map[string]string {
	name := os.Getenv("TERM")
	if c.tty == nil || name == "" {
		return nil
	}
	return map[string]string{"TERM": name}
}

// attachment is how signals reach the command, and stop ends it.
func (c *console) attachment(stop func()) attachment {
	return attachment{signals: c.signals, stop: stop, resized: c.resized, resumed: func() {
		if c.raw != nil {
			_ = c.raw.Again()
		}
	}}
}

// resized passes the present size on; of several only the last matters.
func (c *console) resized() {
	if c.tty == nil {
		return
	}
	size, err := sizeOf(c.tty)
	if err != nil {
		return
	}
	select {
	case <-c.resize:
	default:
	}
	c.resize <- size // has room: this is the only sender
}

// restore leaves the terminal as it was found, and shows what is still held.
func (c *console) restore() {
	if c.raw != nil {
		_ = c.raw.Restore()
	}
	for _, flush := range c.flush {
		_ = flush()
	}
}

func sizeOf(tty *os.File) (realm.Size, error) {
	s, err := term.SizeOf(tty)
	return realm.Size{Rows: s.Rows, Cols: s.Cols}, err
}

// sink ends the run when its reader has gone away or its disk is full: the
// command's output is what the run is for.
type sink struct {
	w      io.Writer
	broken func(error)
	once   sync.Once
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.once.Do(func() { s.broken(brokenOutput(err)) })
	}
	return n, err
}

func brokenOutput(err error) error {
	switch {
	case errors.Is(err, unix.EPIPE):
		return endedBy{unix.SIGPIPE}
	case errors.Is(err, unix.EIO): // the terminal was closed
		return endedBy{unix.SIGHUP}
	}
	return outError(err)
}

// hangup notices that a terminal was closed. In raw mode there is no other end
// of file: Ctrl-D is a byte.
type hangup struct {
	r    io.Reader
	hung func()
}

func (h hangup) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if err != nil {
		h.hung()
	}
	return n, err
}
