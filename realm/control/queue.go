package control

import (
	"sync"
	"time"
	"unicode/utf8"

	"realm.dev/contract"
)

const (
	chunkBytes = 256 << 10 // of output in one frame at most
	queueBytes = 1 << 20   // of output that wait for the client at most
)

// chunk is a piece of what a call printed.
type chunk struct {
	stream string
	offset int64
	data   []byte
}

// outputQueue stands between a call and the client that reads its output. It
// is bounded. A client that is merely slower than the program slows that
// program's pipe; one that stops reading costs one stall, and from then on
// put drops what it is given.
type outputQueue struct {
	stall  time.Duration
	ending <-chan struct{} // closed: the session stops, no stall any more
	ready  chan struct{}   // there may be something to take
	result chan contract.ToolResult
	cut    chan struct{} // closed: a stall was too long, or nobody takes any more

	mu     sync.Mutex
	chunks []chunk
	bytes  int
	room   chan struct{} // closed at the next take
	isCut  bool
}

func newOutputQueue(stall time.Duration, ending <-chan struct{}) *outputQueue {
	return &outputQueue{
		stall:  stall,
		ending: ending,
		ready:  make(chan struct{}, 1),
		result: make(chan contract.ToolResult, 1),
		cut:    make(chan struct{}),
		room:   make(chan struct{}),
	}
}

// put is the call's Output.
func (q *outputQueue) put(stream string, offset int64, p []byte) {
	for len(p) > 0 {
		piece := p[:chunkLen(p)]
		if !q.putPiece(chunk{stream, offset, piece}) {
			return
		}
		offset, p = offset+int64(len(piece)), p[len(piece):]
	}
}

// chunkLen is how much of p goes into one frame; it does not split a rune.
func chunkLen(p []byte) int {
	if len(p) <= chunkBytes {
		return len(p)
	}
	for n := chunkBytes; n > chunkBytes-utf8.UTFMax; n-- {
		if utf8.RuneStart(p[n]) {
			return n
		}
	}
	return chunkBytes
}

// putPiece waits for room, at most one stall, and reports whether it took c.
func (q *outputQueue) putPiece(c chunk) bool {
	var timeout <-chan time.Time
	for {
		taken, room := q.add(c)
		if taken {
			return true
		}
		if timeout == nil {
			timer := time.NewTimer(q.stall)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-room:
		case <-timeout:
			q.cutOff()
			return false
		case <-q.ending:
			q.cutOff()
			return false
		case <-q.cut:
			return false
		}
	}
}

// add copies c into the queue when it fits, to the chunk before when it goes
// on there. When it does not fit, room is closed at the next chance.
func (q *outputQueue) add(c chunk) (taken bool, room <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.isCut || q.bytes+len(c.data) > queueBytes {
		return false, q.room
	}
	q.bytes += len(c.data)
	if last := q.lastLocked(); last != nil && last.stream == c.stream &&
		last.offset+int64(len(last.data)) == c.offset && len(last.data)+len(c.data) <= chunkBytes {
		last.data = append(last.data, c.data...)
	} else {
		c.data = append([]byte(nil), c.data...)
		q.chunks = append(q.chunks, c)
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return true, nil
}

func (q *outputQueue) lastLocked() *chunk {
	if len(q.chunks) == 0 {
		return nil
	}
	return &q.chunks[len(q.chunks)-1]
}

// take returns the next chunk, if there is one.
func (q *outputQueue) take() (chunk, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.chunks) == 0 {
		return chunk{}, false
	}
	c := q.chunks[0]
	q.chunks = q.chunks[1:]
	q.bytes -= len(c.data)
	close(q.room)
	q.room = make(chan struct{})
	return c, true
}

// cutOff makes put drop what comes from now on, at once.
func (q *outputQueue) cutOff() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.isCut {
		q.isCut = true
		close(q.cut)
	}
}

// finish gives the result; it is called once.
func (q *outputQueue) finish(result contract.ToolResult) { q.result <- result }
