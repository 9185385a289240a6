package control

import (
	"context"
	"crypto/rand"
	"net/http"

	"realm.dev/contract"
)

// postCall runs one tool call and answers with its result: as one document,
// or as frames of what it prints and then the result.
//
// A call with an Idempotency-Key goes on when the client goes away, for the
// same request again fetches the result. Without one nobody could: the call
// ends with its connection.
func (s *Server) postCall(w http.ResponseWriter, r *http.Request) error {
	p := pending{stream: wantsStream(r)}
	var err error
	if p.id, p.keyed, err = callID(r); err != nil {
		return err
	}
	if p.call, err = s.toolCall(w, r); err != nil {
		return err
	}
	ctx := r.Context()
	if p.keyed {
		ctx = s.running
	}
	if p.stream {
		s.streamCall(ctx, w, p)
		return nil
	}
	return reply(s, w, s.run(ctx, p, nil))
}

// pending is a call as it was asked for.
type pending struct {
	id     string
	keyed  bool // the client gave the id
	stream bool
	call   *contract.ToolCall
}

// toolCall reads and decodes the body.
func (s *Server) toolCall(w http.ResponseWriter, r *http.Request) (*contract.ToolCall, error) {
	body, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	call, err := contract.Decode[contract.ToolCall](body)
	if err != nil {
		return nil, err
	}
	return &call, nil
}

// callID returns the client's id for the call, or a new one.
func callID(r *http.Request) (id string, keyed bool, err error) {
	switch keys := r.Header["Idempotency-Key"]; len(keys) {
	case 0:
		return rand.Text(), false, nil
	case 1:
		if validCallID(keys[0]) {
			return keys[0], true, nil
		}
	}
	return "", false, contract.Errorf(contract.SchemaInvalid, "the header Idempotency-Key must be one call id").
		WithHint("1 to 128 of A-Z a-z 0-9 _ . : -, the first a letter or digit")
}

// validCallID holds the pattern of callId in tool-result.schema.json.
func validCallID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '.' || c == ':' || c == '-'):
		default:
			return false
		}
	}
	return len(id) >= 1 && len(id) <= 128
}

// run calls the session. A panic in it ends the call, not the server, and its
// value, which may hold anything, goes nowhere.
func (s *Server) run(ctx context.Context, p pending, out Output) (res contract.ToolResult) {
	defer func() {
		if recover() != nil {
			s.opts.Logger.Error("tool call panicked", "tool", p.call.Tool())
			res = notFinished(p.id)
		}
	}()
	return s.session.Call(ctx, p.id, p.call, out)
}

func notFinished(id string) contract.ToolResult {
	return contract.ToolResult{CallID: id, Error: contract.Errorf(contract.Internal, "the call has no result that can be told")}
}

// streamCall runs the call here and writes its frames in a goroutine beside,
// so that a slow client holds up the writer first.
func (s *Server) streamCall(ctx context.Context, w http.ResponseWriter, p pending) {
	patience := s.opts.PauseTimeout
	if p.keyed {
		patience = s.opts.StallTimeout
	}
	queue := newOutputQueue(patience, s.ending)
	out := s.stream(w)
	out.timeout = max(out.timeout, patience)
	frames := &frameWriter{out: out, callID: p.id, log: s.opts.Logger}
	written := make(chan error, 1)
	go func() {
		defer queue.cutOff() // the program does not wait for a client that is gone
		written <- frames.writeCall(queue)
	}()
	queue.finish(s.run(ctx, p, queue.put))
	if err := <-written; err != nil {
		panic(http.ErrAbortHandler) // the client must not take this for the end
	}
}
