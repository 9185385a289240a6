package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"realm.dev/contract"
)

// Record returns the session's record.
func (c *Client) Record(ctx context.Context) (contract.SessionRecord, error) {
	return fetch[contract.SessionRecord](ctx, c, request{method: http.MethodGet, path: "/v1/record"}, contract.MaxRecordBytes)
}

// Session returns all that is known of the session.
func (c *Client) Session(ctx context.Context) (contract.SessionDetail, error) {
	return fetch[contract.SessionDetail](ctx, c, request{method: http.MethodGet, path: "/v1/session"}, contract.MaxDetailBytes)
}

// Stop ends the session and returns its terminal record. A grace of 0 is the
// session's default. Stopping again returns the same record.
func (c *Client) Stop(ctx context.Context, grace time.Duration) (contract.SessionRecord, error) {
	r := request{method: http.MethodPost, path: "/v1/stop"}
	if grace > 0 {
		// Rounded up: 0 would be the default.
		ms := int64((grace + time.Millisecond - 1) / time.Millisecond)
		body, err := contract.Encode(contract.ToolCall{Stop: &contract.StopCall{GraceMs: ms}})
		if err != nil {
			return contract.SessionRecord{}, err
		}
		r.body = body
	}
	return fetch[contract.SessionRecord](ctx, c, r, contract.MaxRecordBytes)
}

// WatchRecord yields the current record and then one for each transition. The
// last is terminal, or comes with an error.
func (c *Client) WatchRecord(ctx context.Context) iter.Seq2[contract.SessionRecord, error] {
	return func(yield func(contract.SessionRecord, error) bool) {
		body, err := c.do(ctx, request{method: http.MethodGet, path: "/v1/record", accept: typeNDJSON})
		if err != nil {
			yield(contract.SessionRecord{}, err)
			return
		}
		defer body.Close()
		lines := newLines[contract.SessionRecord](body, contract.MaxRecordBytes)
		for {
			record, err := lines.next(ctx)
			if !yield(record, err) || err != nil || record.State.Terminal() {
				return
			}
		}
	}
}

// fetch returns the document that answers r.
func fetch[T contract.Document](ctx context.Context, c *Client, r request, limit int64) (T, error) {
	var none T
	r.accept = typeJSON
	body, err := c.do(ctx, r)
	if err != nil {
		return none, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return none, lost(ctx, err)
	}
	return decode[T](b)
}

// decode reads what the session said. That it is not valid is no fault of the
// caller's input, which SCHEMA_INVALID would mean.
func decode[T contract.Document](b []byte) (T, error) {
	document, err := contract.Decode[T](b)
	if err != nil {
		return document, contract.Errorf(contract.Internal, "control socket: the answer does not match its schema").WithCause(err)
	}
	return document, nil
}

// lines reads documents, one a line.
type lines[T contract.Document] struct {
	r     *bufio.Reader
	limit int
}

func newLines[T contract.Document](r io.Reader, limit int) *lines[T] {
	return &lines[T]{r: bufio.NewReaderSize(r, 64<<10), limit: limit}
}

// next returns the next document. The end of the stream is an error too: a
// stream says by its last document that it is the last.
func (l *lines[T]) next(ctx context.Context) (T, error) {
	var none T
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > l.limit:
			return none, contract.Errorf(contract.Internal, "control socket: a line has more than %d bytes", l.limit)
		case err == nil:
			return decode[T](line)
		case !errors.Is(err, bufio.ErrBufferFull):
			return none, lost(ctx, err)
		}
	}
}
