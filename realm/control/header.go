package control

import (
	"bytes"
	"errors"
	"net"
	"time"

	"realm.dev/contract"
)

// headerGuard reads the header of a connection's only request more strictly
// than net/http does: every line ends in CR LF, none is folded, none holds a
// NUL, and all together are bounded. What it refuses is answered here, before
// anything is parsed, so that no two readers can differ about where a request
// ends.
type headerGuard struct {
	net.Conn
	limit   int
	timeout time.Duration // for the answer to what is refused

	read int  // header bytes so far
	line int  // bytes of the current line
	last byte // the byte before
	done bool // the empty line has been seen; what follows is the body
}

// errHeader ends the connection. net/http takes a closed connection as such
// and adds no answer of its own.
var errHeader = &net.OpError{Op: "read", Net: "unix", Err: errors.New("malformed header")}

// Read passes on what the peer sent until the header is not as it must be.
func (g *headerGuard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if g.done || n == 0 {
		return n, err
	}
	if refusal := g.scan(p[:n]); refusal != nil {
		g.refuse(refusal)
		return 0, errHeader
	}
	return n, err
}

func (g *headerGuard) scan(p []byte) *contract.Error {
	for _, b := range p {
		if rule := g.step(b); rule != "" {
			return contract.Errorf(contract.SchemaInvalid, "request header: %s", rule)
		}
		if g.done {
			return nil
		}
		if g.read++; g.read > g.limit {
			return contract.Errorf(contract.LimitExceeded, "request header: more than %d bytes", g.limit)
		}
	}
	return nil
}

// step takes one byte and returns the rule that it breaks.
func (g *headerGuard) step(b byte) string {
	defer func() { g.last = b }()
	switch {
	case b == 0:
		return "a NUL byte"
	case (b == '\n') != (g.last == '\r'):
		return "a line does not end in CR LF"
	case b == '\n':
		// The line was empty but for its CR: the end, unless nothing came before.
		if g.line == 1 {
			g.done = g.read > 1
			if !g.done {
				return "no request line"
			}
		}
		g.line = 0
		return ""
	case g.line == 0 && (b == ' ' || b == '\t'):
		return "a folded line"
	}
	g.line++
	return ""
}

// refuse writes the answer as far as the peer takes it.
func (g *headerGuard) refuse(e *contract.Error) {
	var b bytes.Buffer
	writeRaw(&b, e)
	if err := g.SetWriteDeadline(time.Now().Add(g.timeout)); err == nil {
		_, _ = g.Write(b.Bytes()) // the connection ends either way
	}
}
