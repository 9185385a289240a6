package cli

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// On a terminal in raw mode Ctrl-C is a byte like any other: it belongs to the
// command, and a shell or an editor gets many. The session ends only when the
// command does not react to it: at a second press, when after the first nothing
// came but its echo, or at a burst of presses, when the command prints on and on.
const (
	ctrlC      = 0x03
	reactTime  = 500 * time.Millisecond // a second press sooner than this is no complaint
	burst      = 5                      // presses
	burstTime  = 2 * time.Second
	echoOfKeys = "^C^C^C^C^C\r\n" // what the terminal driver itself prints
)

// keys watches what passes between a terminal and a command, and decides when
// Ctrl-C must end the session.
type keys struct {
	now func() time.Time
	end func() // called at most once, without mu

	mu      sync.Mutex
	first   time.Time // of the press that is still without a reaction; zero: none
	since   []byte    // what came since
	presses []time.Time
	ended   bool
}

// pressed takes one Ctrl-C in and reports whether it ends the session.
func (k *keys) pressed(at time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.presses = append(k.presses, at)
	if len(k.presses) > burst {
		k.presses = k.presses[1:]
	}
	ignored := !k.first.IsZero() && at.Sub(k.first) >= reactTime
	flood := len(k.presses) == burst && at.Sub(k.presses[0]) <= burstTime
	if k.first.IsZero() {
		k.first, k.since = at, nil
	}
	if k.ended || !ignored && !flood {
		return false
	}
	k.ended = true
	return true
}

// printed takes output in: more than an echo is a reaction.
func (k *keys) printed(p []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.first.IsZero() || len(p) == 0 {
		return
	}
	k.since = append(k.since, p[:min(len(p), len(echoOfKeys))]...)
	if !isEcho(k.since) {
		k.first, k.since = time.Time{}, nil
	}
}

// isEcho reports whether text can be the terminal driver's echo of Ctrl-C.
func isEcho(text []byte) bool {
	rest := bytes.TrimRight(text, "\r\n")
	return len(text) <= len(echoOfKeys) && bytes.HasPrefix([]byte(echoOfKeys), rest)
}

// reader returns r with its Ctrl-C noticed.
func (k *keys) reader(r io.Reader) io.Reader { return keyReader{r, k} }

type keyReader struct {
	r io.Reader
	k *keys
}

func (r keyReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	for range bytes.Count(p[:n], []byte{ctrlC}) {
		if r.k.pressed(r.k.now()) {
			r.k.end()
		}
	}
	return n, err
}

// writer returns w with what is written noticed.
func (k *keys) writer(w io.Writer) io.Writer { return keyWriter{w, k} }

type keyWriter struct {
	w io.Writer
	k *keys
}

func (w keyWriter) Write(p []byte) (int, error) {
	w.k.printed(p)
	return w.w.Write(p)
}
