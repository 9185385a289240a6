package control

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// sliceConn is a connection whose peer sent data, in reads of at most size.
type sliceConn struct {
	net.Conn
	data []byte
	size int
	sent bytes.Buffer
}

func (c *sliceConn) Read(p []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), c.size)], c.data)
	c.data = c.data[n:]
	return n, nil
}

func (c *sliceConn) Write(p []byte) (int, error)      { return c.sent.Write(p) }
func (c *sliceConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzHeader: the guard's verdict does not depend on how the bytes arrive; it
// passes bytes on unchanged; and a header that it lets through has one reading:
// CR LF ends each line and nothing else does.
func FuzzHeader(f *testing.F) {
	for _, request := range requests {
		if len(request.bytes) < 4<<10 {
			f.Add([]byte(request.bytes), byte(3))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, size byte) {
		const limit = 1 << 10
		read := func(size int) ([]byte, *headerGuard, bool) {
			conn := &sliceConn{data: data, size: size}
			guard := &headerGuard{Conn: conn, limit: limit}
			got, err := io.ReadAll(guard)
			if refused := err != nil; refused != (conn.sent.Len() > 0) {
				t.Errorf("refused %v, answered %q", refused, conn.sent.Bytes())
			}
			return got, guard, err != nil
		}
		got, guard, refused := read(1 + int(size))
		if _, whole, refusedWhole := read(len(data) + 1); refused != refusedWhole || guard.done != whole.done {
			t.Errorf("the verdict depends on the reads: %v and %v", refused, refusedWhole)
		}
		if !bytes.HasPrefix(data, got) || !refused && len(got) != len(data) {
			t.Error("other bytes were passed on")
		}
		if !guard.done {
			return
		}
		header, _, ok := bytes.Cut(data, []byte("\r\n\r\n"))
		lines := bytes.ReplaceAll(header, []byte("\r\n"), nil)
		if !ok || len(header) == 0 || len(header)+3 > limit || bytes.ContainsAny(lines, "\r\n\x00") ||
			bytes.Contains(header, []byte("\n ")) || bytes.Contains(header, []byte("\n\t")) {
			t.Errorf("let through: %q", header)
		}
	})
}
