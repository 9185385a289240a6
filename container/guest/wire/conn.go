package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Conn sends and receives frames over a unix stream socket. One goroutine may
// read while any number write.
type Conn struct {
	// WriteTimeout bounds the writing of one frame; 0 is no bound. It is set
	// before the first write.
	WriteTimeout time.Duration

	file *os.File
	raw  syscall.RawConn

	writing sync.Mutex
	out     []byte

	// What was received and not consumed yet. The kernel ends a read behind
	// bytes that carry descriptors, so these queue up in the order of frames.
	in    []byte
	start int
	files []int
	oob   [controlSize]byte
}

// controlSize holds the control message of MaxFiles descriptors (16 bytes of
// header, 4 for each, aligned to 8).
const controlSize = 16 + (4*MaxFiles+7)/8*8

// keptBuffer is the size above which a buffer is given back after use.
const keptBuffer = 64 << 10

// NewConn returns a Conn over fd, which it owns from then on. When fd is
// non-blocking, reads and writes wait in the poller and deadlines work.
func NewConn(fd int) (*Conn, error) {
	f := os.NewFile(uintptr(fd), "link")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Conn{file: f, raw: raw, in: make([]byte, 0, 4<<10)}, nil
}

// Read returns the next frame. Its payload is valid until the next Read; its
// descriptors belong to the caller and are close-on-exec. At the end of the
// stream between two frames the error is io.EOF.
func (c *Conn) Read() (Frame, error) {
	for {
		f, files, n, err := Parse(c.in[c.start:])
		if err != nil {
			return Frame{}, err
		}
		if n > 0 {
			if files > len(c.files) {
				return Frame{}, &Error{"descriptors are missing"}
			}
			c.start += n
			f.Files, c.files = c.files[:files:files], c.files[files:]
			return f, nil
		}
		if err := c.fill(); err != nil {
			return Frame{}, err
		}
	}
}

// fill receives once, with room for the frame that has begun.
func (c *Conn) fill() error {
	c.makeRoom()
	var n, oobn, flags int
	var rerr error
	err := c.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, rerr = unix.Recvmsg(int(fd), c.in[len(c.in):cap(c.in)], c.oob[:], unix.MSG_CMSG_CLOEXEC)
			if rerr != unix.EINTR {
				return rerr != unix.EAGAIN
			}
		}
	})
	if err = errors.Join(err, rerr); err != nil {
		return err
	}
	if err := c.receiveFiles(c.oob[:oobn], flags); err != nil {
		return err
	}
	if n == 0 {
		if c.start < len(c.in) {
			return io.ErrUnexpectedEOF
		}
		return io.EOF
	}
	c.in = c.in[:len(c.in)+n]
	return nil
}

// makeRoom moves what is left to the front, in a buffer of the right size.
func (c *Conn) makeRoom() {
	rest := c.in[c.start:]
	want := 4 << 10
	if len(rest) >= headerSize {
		if h, err := parseHeader(rest); err == nil {
			want = max(want, headerSize+h.length)
		}
	}
	if want > cap(c.in) || cap(c.in) > keptBuffer && want <= keptBuffer {
		c.in = append(make([]byte, 0, want), rest...)
	} else {
		c.in = append(c.in[:0], rest...)
	}
	c.start = 0
}

func (c *Conn) receiveFiles(oob []byte, flags int) error {
	if len(oob) > 0 {
		messages, err := unix.ParseSocketControlMessage(oob)
		if err != nil {
			return &Error{"malformed control message"}
		}
		for i := range messages {
			fds, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return &Error{"unexpected control message"}
			}
			c.files = append(c.files, fds...)
		}
	}
	if flags&unix.MSG_CTRUNC != 0 || len(c.files) > 2*MaxFiles {
		return &Error{"too many descriptors"}
	}
	return nil
}

// Write sends m with the given identifier and descriptors, which stay the
// caller's.
func (c *Conn) Write(id uint32, m Message, files ...int) error {
	payload, err := Encode(m)
	if err != nil {
		return err
	}
	return c.WriteFrame(Frame{Type: m.frameType(), ID: id, Payload: payload, Files: files})
}

// WriteFrame sends f. After an error other than [*Error] part of the frame may
// have been sent, so that the connection is of no more use.
func (c *Conn) WriteFrame(f Frame) error {
	if len(f.Payload) > MaxPayload || len(f.Files) > MaxFiles {
		return &Error{"frame too large"}
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if c.WriteTimeout > 0 {
		if err := c.file.SetWriteDeadline(time.Now().Add(c.WriteTimeout)); err != nil {
			return err
		}
	}
	c.out = Append(c.out[:0], f)
	err := c.send(c.out, f.Files)
	if cap(c.out) > keptBuffer {
		c.out = nil
	}
	return err
}

func (c *Conn) send(b []byte, files []int) error {
	var oob []byte
	if len(files) > 0 {
		oob = unix.UnixRights(files...)
	}
	for len(b) > 0 {
		var n int
		var werr error
		err := c.raw.Write(func(fd uintptr) bool {
			for {
				n, werr = unix.SendmsgN(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
				if werr != unix.EINTR {
					return werr != unix.EAGAIN
				}
			}
		})
		if err = errors.Join(err, werr); err != nil {
			return err
		}
		b, oob = b[n:], nil
	}
	return nil
}

// SetReadDeadline sets when a Read gives up.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.file.SetReadDeadline(t) }

// Close closes the socket, which ends a Read and a Write under way.
func (c *Conn) Close() error { return c.file.Close() }

// Discard closes the descriptors that came beside frames not read. It must not
// run beside Read.
func (c *Conn) Discard() {
	CloseFiles(c.files)
	c.files = nil
}

// CloseFiles closes descriptors.
func CloseFiles(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
