package control

import (
	"encoding/base64"
	"log/slog"
	"unicode/utf8"

	"realm.dev/contract"
)

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
		if err := f.drain(q); err != nil {
			return err
		}
		// Nothing waits, so the client gets what is written so far.
		if err := f.out.flush(); err != nil {
			return err
		}
		select {
		case <-q.ready:
		case <-cut:
			cut = nil // said once
			if err := f.tooSlow(q); err != nil {
				return err
			}
		case result := <-q.result:
			return f.end(q, cut, result)
		}
	}
}

// end writes what the call had printed before it returned, and the result.
func (f *frameWriter) end(q *outputQueue, cut <-chan struct{}, result contract.ToolResult) error {
	if err := f.drain(q); err != nil {
		return err
	}
	select {
	case <-cut:
		if err := f.tooSlow(q); err != nil {
			return err
		}
	default:
	}
	return f.result(result)
}

func (f *frameWriter) drain(q *outputQueue) error {
	for {
		c, ok := q.take()
		if !ok {
			return nil
		}
		if err := f.output(c); err != nil {
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

// tooSlow says that output was left out, after all that was not.
func (f *frameWriter) tooSlow(q *outputQueue) error {
	if err := f.drain(q); err != nil {
		return err
	}
	e := contract.Errorf(contract.LimitExceeded, "the client read too slowly, so the rest of the output is not in this stream").
		WithHint("the result follows, with the head and tail of the output")
	return f.send(contract.Frame{Type: contract.FrameError, Error: &contract.ErrorFrame{CallID: f.callID, Error: *e}})
}

func (f *frameWriter) send(frame contract.Frame) error {
	frame.Seq = f.seq + 1
	if err := send(f.out, frame); err != nil {
		return err
	}
	f.seq++
	return nil
}
