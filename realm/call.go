package realm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"realm.dev/container/guest"
	"realm.dev/contract"
	"realm.dev/policy"
)

const (
	// storedBytes bounds the results that a session keeps for callers that come
	// back; the oldest are forgotten first.
	storedBytes = 64 << 20
	// maxCalls bounds the ids that it remembers.
	maxCalls = 1 << 20
)

// calls makes call ids at-most-once: a replayed id gets the stored result, and
// when that is forgotten an error, but never a second run.
type calls struct {
	mu    sync.Mutex
	byID  map[string]*callEntry
	ended []*callEntry // with a stored result, oldest first
	bytes int64
}

type callEntry struct {
	input  [sha256.Size]byte
	done   chan struct{}
	result *contract.ToolResult // nil once forgotten
}

// begin claims id for a call of this input. It returns the entry of the first
// call of that id, and whether this is it.
func (c *calls) begin(id string, input [sha256.Size]byte) (e *callEntry, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byID[id]; ok {
		return e, false, nil
	}
	if len(c.byID) >= maxCalls {
		return nil, false, contract.Errorf(contract.LimitExceeded, "the session has had %d calls", maxCalls).WithHint("begin a new session")
	}
	if c.byID == nil {
		c.byID = map[string]*callEntry{}
	}
	e = &callEntry{input: input, done: make(chan struct{})}
	c.byID[id] = e
	return e, true, nil
}

// end stores a result and forgets the oldest ones that are too many.
func (c *calls) end(e *callEntry, res *contract.ToolResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.result = res
	close(e.done)
	c.ended = append(c.ended, e)
	for c.bytes += size(res); c.bytes > storedBytes && len(c.ended) > 1; c.ended = c.ended[1:] {
		c.bytes -= size(c.ended[0].result)
		c.ended[0].result = nil
	}
}

// stored is the result of an entry that has ended; nil once forgotten.
func (c *calls) stored(e *callEntry) *contract.ToolResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.result
}

// size is about what a result takes in memory.
func size(res *contract.ToolResult) int64 {
	n := int64(512)
	if x := res.Exec; x != nil {
		n += int64(len(x.Stdout.Head) + len(x.Stdout.Tail) + len(x.Stderr.Head) + len(x.Stderr.Tail))
	}
	return n
}

// Call runs one tool call and returns its result; what went wrong is in it. A
// call id runs at most once: the second caller of an id gets the first one's
// result.
func (s *Session) Call(ctx context.Context, callID string, call *contract.ToolCall, out OutputFunc) contract.ToolResult {
	raw, err := json.Marshal(call)
	if err != nil {
		return contract.ToolResult{CallID: callID, Error: contract.AsError(err)}
	}
	input := sha256.Sum256(raw)
	e, first, err := s.calls.begin(callID, input)
	if err != nil {
		return contract.ToolResult{CallID: callID, Error: contract.AsError(err)}
	}
	if !first {
		return s.replay(ctx, callID, e, input)
	}
	// Also when perform panics: whoever waits for this id must get an answer.
	res := contract.ToolResult{CallID: callID, Error: contract.Errorf(contract.Internal, "the call did not end")}
	defer func() { s.calls.end(e, &res) }()
	res = s.perform(ctx, callID, call, input, out)
	return res
}

func (s *Session) replay(ctx context.Context, id string, e *callEntry, input [sha256.Size]byte) contract.ToolResult {
	if e.input != input {
		return contract.ToolResult{CallID: id, Error: contract.Errorf(contract.SessionState, "this call id was used for another call")}
	}
	select {
	case <-e.done:
		if res := s.calls.stored(e); res != nil {
			return *res
		}
		return contract.ToolResult{CallID: id, Error: contract.Errorf(contract.SessionState, "this call has run; its result is not kept any more")}
	case <-ctx.Done():
		return contract.ToolResult{CallID: id, Error: contract.Errorf(contract.SessionLost, "the caller went away").WithCause(context.Cause(ctx))}
	}
}

// perform decides, journals and runs one call.
func (s *Session) perform(ctx context.Context, id string, call *contract.ToolCall, input [sha256.Size]byte, out OutputFunc) contract.ToolResult {
	fail := func(err error) contract.ToolResult {
		return contract.ToolResult{CallID: id, Error: contract.AsError(err)}
	}
	switch call.Tool() {
	case contract.ToolStatus:
		d := s.Detail()
		return contract.ToolResult{CallID: id, Status: &d}
	case contract.ToolStop:
		// The caller's context is the connection's: a stop goes on without it.
		rec, err := s.Stop(context.WithoutCancel(ctx), time.Duration(call.Stop.GraceMs)*time.Millisecond)
		if err != nil {
			return fail(err)
		}
		return contract.ToolResult{CallID: id, Stop: &rec}
	case contract.ToolExec:
	default:
		return fail(contract.Errorf(contract.SessionState, "this build runs exec, status and stop; files are reached through exec"))
	}
	b, err := s.current()
	if err != nil {
		return fail(err)
	}
	if err := s.store.intent(s.id, id, call, input); err != nil {
		return fail(err)
	}
	var res contract.ToolResult
	if err := s.decide(call); err != nil {
		res = fail(err)
	} else {
		res = s.exec(ctx, b, id, call.Exec, out)
	}
	if err := s.store.outcome(s.id, &res); err != nil {
		s.log.Error("a call's outcome could not be journalled", "err", err)
	}
	return res
}

// decide applies the policy's local rules to a call, on the name that its
// working directory really has.
func (s *Session) decide(call *contract.ToolCall) error {
	req := policy.Request{Call: *call}
	if cwd := call.Exec.Cwd; cwd != "" {
		dir, err := s.tree.Resolve(policy.OpExec, cwd)
		if err != nil {
			return err
		}
		defer dir.Close()
		req.Resolved, req.File = dir.Name, dir.State
	}
	return s.req.Policy.Decide(req).Err()
}

// current returns the box of a session that can take calls.
func (s *Session) current() (*box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil {
		return nil, contract.Errorf(contract.SessionState, "the session is %s, not ready", s.detail.Record.State)
	}
	select {
	case <-s.box.link.Done():
		return nil, contract.Errorf(contract.SessionLost, "the container or its supervisor has ended")
	default:
	}
	return s.box, nil
}

// background lists what runs on under calls whose programs have ended.
func (b *box) background(ctx context.Context) []contract.BackgroundCall {
	list, err := b.link.Processes(ctx)
	if err != nil {
		return nil
	}
	return countByCall(list)
}

func countByCall(list guest.ProcessList) []contract.BackgroundCall {
	out := []contract.BackgroundCall{}
	at := map[string]int{}
	for _, p := range list.Processes {
		i, ok := at[p.Call]
		if !ok {
			i = len(out)
			at[p.Call] = i
			out = append(out, contract.BackgroundCall{CallID: p.Call})
		}
		out[i].Processes++
	}
	return out
}
