package control

import (
	"encoding/base64"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"realm.dev/contract"
)

const (
	chunkBytes  = 32 << 10 // of output in one frame at most
	queueChunks = 32       // that wait for the client: 1 MiB
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
	stall    time.Duration
	chunks   chan chunk
	result   chan contract.ToolResult
	cutOnce  sync.Once
	cut      chan struct{} // closed: a stall was too long
	stopOnce sync.Once
	stopped  chan struct{} // closed: nobody takes chunks any more
}

func newOutputQueue(stall time.Duration) *outputQueue {
	return &outputQueue{
		stall:   stall,
		chunks:  make(chan chunk, queueChunks),
		result:  make(chan contract.ToolResult, 1),
		cut:     make(chan struct{}),
		stopped: make(chan struct{}),
	}
}

// put is the call's Output.
func (q *outputQueue) put(stream string, offset int64, p []byte) {
	for len(p) > 0 {
		n := chunkLen(p)
		if !q.putChunk(chunk{stream, offset, append([]byte(nil), p[:n]...)}) {
			return
		}
		offset, p = offset+int64(n), p[n:]
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

func (q *outputQueue) putChunk(c chunk) bool {
	select {
	case <-q.cut:
		return false
	case <-q.stopped:
		return false
	default:
	}
	select {
	case q.chunks <- c:
		return true
	default:
	}
	timer := time.NewTimer(q.stall)
	defer timer.Stop()
	select {
	case q.chunks <- c:
		return true
	case <-timer.C:
		q.cutOnce.Do(func() { close(q.cut) })
	case <-q.cut:
	case <-q.stopped:
	}
	return false
}

// finish gives the result; it is called once.
func (q *outputQueue) finish(result contract.ToolResult) { q.result <- result }

// stop makes put return at once, for ever.
func (q *outputQueue) stop() { q.stopOnce.Do(func() { close(q.stopped) }) }

// frameWriter numbers and writes the frames of one call.
type frameWriter struct {
	out    *ndjson
	callID string
	log    *slog.Logger
	seq    int64
}

// writeCall writes what comes through q until it has written the result.
func (f *frameWriter) writeCall(q *outputQueue) error {
	cut := q.cut
	for {
		select {
		case c := <-q.chunks:
			if err := f.output(c); err != nil {
				return err
			}
			continue
		default:
		}
		// Nothing waits, so the client gets what is written so far.
		if err := f.out.flush(); err != nil {
			return err
		}
		var err error
		select {
		case c := <-q.chunks:
			err = f.output(c)
		case <-cut:
			cut = nil // said once
			err = f.tooSlow()
		case result := <-q.result:
			return f.end(q, cut, result)
		}
		if err != nil {
			return err
		}
	}
}

// end writes what the call had printed before it returned, and the result.
func (f *frameWriter) end(q *outputQueue, cut <-chan struct{}, result contract.ToolResult) error {
	for {
		var err error
		select {
		case c := <-q.chunks:
			err = f.output(c)
		case <-cut:
			cut, err = nil, f.tooSlow()
		default:
			return f.result(result)
		}
		if err != nil {
			return err
		}
	}
}

func (f *frameWriter) result(result contract.ToolResult) error {
	err := f.send(contract.Frame{Type: contract.FrameResult, Result: &result})
	if contract.CodeOf(err) == contract.SchemaInvalid {
		f.log.Error("a tool result does not match its schema", "err", err)
		result = notFinished(f.callID)
		err = f.send(contract.Frame{Type: contract.FrameResult, Result: &result})
	}
	if err != nil {
		return err
	}
	return f.out.flush()
}

func (f *frameWriter) output(c chunk) error {
	frame := contract.OutputFrame{CallID: f.callID, Stream: c.stream, Offset: c.offset, Encoding: contract.UTF8}
	if utf8.Valid(c.data) {
		frame.Data = string(c.data)
	} else {
		frame.Data, frame.Encoding = base64.StdEncoding.EncodeToString(c.data), contract.Base64
	}
	return f.send(contract.Frame{Type: contract.FrameOutput, Output: &frame})
}

func (f *frameWriter) tooSlow() error {
	e := contract.Errorf(contract.LimitExceeded, "the client read too slowly, so the rest of the output is not in this stream").
		WithHint("the result follows, with the head and tail of the output")
	return f.send(contract.Frame{Type: contract.FrameError, Error: &contract.ErrorFrame{CallID: f.callID, Error: *e}})
}

func (f *frameWriter) send(frame contract.Frame) error {
	f.seq++
	frame.Seq = f.seq
	return send(f.out, frame)
}
