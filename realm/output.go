package realm

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"realm.dev/contract"
)

// OutputFunc receives what a program prints, in order per stream. The bytes are
// only valid during the call, which holds the program's output up meanwhile.
type OutputFunc = func(stream string, offset int64, p []byte)

// capture keeps what one stream of one call printed: all of it up to limit
// bytes, beyond that the first and the last half of limit, with the whole in a
// spill file. It never stops reading: a program whose output is too long must
// not be ended by SIGPIPE.
type capture struct {
	stream string
	limit  int
	spill  func() (*os.File, error)
	sink   OutputFunc

	mu     sync.Mutex
	head   []byte
	tail   ring
	total  int64
	file   *os.File
	sum    hash.Hash
	err    error // the spill file could not be written; said in the result
	closed bool  // the result was taken: later bytes are drained, not kept
}

func newCapture(stream string, limit int64, spill func() (*os.File, error), sink OutputFunc) *capture {
	return &capture{stream: stream, limit: int(limit), spill: spill, sink: sink}
}

// drain reads r to its end. It returns when every writer has closed the pipe,
// which may be long after the program ended when it left something behind.
func (c *capture) drain(r io.Reader) {
	buf := make([]byte, 128<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			c.write(buf[:n])
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
}

func (c *capture) write(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	offset := c.total
	c.total += int64(len(p))
	c.keep(p)
	if c.sink != nil {
		c.sink(c.stream, offset, p)
	}
}

// busy reports whether bytes are being kept or handed on at this moment.
func (c *capture) busy() bool {
	if !c.mu.TryLock() {
		return true
	}
	c.mu.Unlock()
	return false
}

// keep stores p. Preconditions: mu is held.
func (c *capture) keep(p []byte) {
	if c.file == nil && c.err == nil && len(c.head)+len(p) > c.limit {
		c.openSpill()
	}
	if c.file != nil {
		_, err := c.file.Write(p)
		c.fail(err)
		c.sum.Write(p)
	}
	n := min(max(c.headLimit()-len(c.head), 0), len(p))
	c.head = append(c.head, p[:n]...)
	c.tail.write(p[n:])
}

// headLimit is limit while all is kept, and half of it from the spill on.
// Preconditions: mu is held.
func (c *capture) headLimit() int {
	if c.tail.limit == 0 {
		return c.limit
	}
	return max(c.limit/2, 1)
}

// openSpill begins the spill file with what was kept so far and halves that
// into head and tail. Preconditions: mu is held, nothing was spilled before.
func (c *capture) openSpill() {
	f, err := c.spill()
	if err == nil {
		_, err = f.Write(c.head)
	}
	c.file, c.sum = f, sha256.New()
	c.sum.Write(c.head)
	c.fail(err)
	c.tail.limit = max(c.limit-c.limit/2, 1)
	if half := c.headLimit(); len(c.head) > half {
		c.tail.write(c.head[half:])
		c.head = c.head[:half:half]
	}
}

// fail gives the spill file up: the result then says that the middle is lost.
func (c *capture) fail(err error) {
	if err == nil || c.err != nil {
		return
	}
	c.err = err
	if c.file != nil {
		_ = c.file.Close()
		_ = os.Remove(c.file.Name())
		c.file = nil
	}
}

// result closes the capture and returns what it kept.
func (c *capture) result() contract.Output {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	out := contract.Output{Bytes: c.total}
	tail := c.tail.bytes()
	out.Truncated = c.total > int64(len(c.head)+len(tail))
	if c.file != nil {
		c.fail(c.file.Close())
	}
	if c.file != nil {
		out.Spill = c.file.Name()
		out.SHA256 = hex.EncodeToString(c.sum.Sum(nil))
		c.file = nil
	}
	if !out.Truncated { // head and tail meet: one piece again
		c.head, tail = append(c.head, tail...), nil
	}
	out.Head, out.Tail, out.Encoding = encodeText(c.head, tail)
	return out
}

// encodeText returns both pieces as text when both are UTF-8 (a rune that the
// cut between them split does not count against them), else as base64.
func encodeText(head, tail []byte) (h, t, encoding string) {
	if len(tail) == 0 && utf8.Valid(head) {
		return string(head), "", "utf8"
	}
	if len(tail) > 0 {
		if ch, ct := trimRune(head), skipRune(tail); utf8.Valid(ch) && utf8.Valid(ct) {
			return string(ch), string(ct), "utf8"
		}
	}
	e := base64.StdEncoding
	return e.EncodeToString(head), e.EncodeToString(tail), "base64"
}

// trimRune cuts a rune off that ends beyond b.
func trimRune(b []byte) []byte {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		c := b[len(b)-i]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			return b
		}
	}
	return b
}

// skipRune cuts the rest of a rune off that began before b.
func skipRune(b []byte) []byte {
	for i := 0; i < min(utf8.UTFMax-1, len(b)); i++ {
		if utf8.RuneStart(b[i]) {
			return b[i:]
		}
	}
	return b
}

// ring keeps the last limit bytes.
type ring struct {
	limit int
	buf   []byte
	next  int // where the oldest byte is, once buf is full
}

func (r *ring) write(p []byte) {
	if r.limit == 0 {
		return
	}
	if len(p) >= r.limit {
		r.buf, r.next = append(r.buf[:0], p[len(p)-r.limit:]...), 0
		return
	}
	if room := r.limit - len(r.buf); room > 0 {
		n := min(room, len(p))
		r.buf, p = append(r.buf, p[:n]...), p[n:]
	}
	for len(p) > 0 {
		n := copy(r.buf[r.next:], p)
		p, r.next = p[n:], (r.next+n)%r.limit
	}
}

func (r *ring) bytes() []byte {
	return append(append(make([]byte, 0, len(r.buf)), r.buf[r.next:]...), r.buf[:r.next]...)
}
