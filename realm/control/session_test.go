package control

import (
	"context"
	"sync"
	"testing"
	"time"

	"realm.dev/contract"
)

// fakeSession is a session without a container: its states are set by tests,
// and what a call does is a function.
type fakeSession struct {
	call func(ctx context.Context, id string, call *contract.ToolCall, out Output) contract.ToolResult

	mu       sync.Mutex
	records  []contract.SessionRecord // all transitions so far
	changed  chan struct{}            // closed at the next one
	done     chan struct{}
	calls    []string // ids, in order
	stops    int
	watchers int
}

func newFakeSession() *fakeSession {
	f := &fakeSession{changed: make(chan struct{}), done: make(chan struct{})}
	f.records = []contract.SessionRecord{fakeRecord(contract.Ready)}
	f.call = func(_ context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
		return exited(id, 0)
	}
	return f
}

func fakeRecord(state contract.State) contract.SessionRecord {
	id := "c0ffee"
	return contract.SessionRecord{
		RealmID: "local", SessionID: "s1", WorkspaceRoot: "/w", State: state,
		ControlSocketPath: "/run/realm/local/s1.sock", ContainerID: &id,
	}
}

func fakeDetail(state contract.State) contract.SessionDetail {
	return contract.SessionDetail{
		Record: fakeRecord(state), CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Mode: contract.ReadOnly, Git: contract.GitRead, Image: contract.ImageInfo{Ref: "host"},
		PolicyDigest: "sha256:4d967a30111bf29f0eba01c448b375c1629b2fed01cdfcc3aed91f1b57d5dd5e",
		Egress:       "none", Conditions: []contract.Condition{}, Probes: []contract.Probe{},
		Limits: []contract.AppliedLimit{}, Background: []contract.BackgroundCall{},
		HeldBack: []contract.HeldBack{}, Degraded: []string{},
	}
}

func exited(id string, code int) contract.ToolResult {
	none := contract.Output{Encoding: "utf8"}
	return contract.ToolResult{CallID: id, Exec: &contract.ExecResult{
		Outcome: contract.Exited, ExitCode: &code, Stdout: none, Stderr: none,
	}}
}

// enter makes the next transition.
func (f *fakeSession) enter(state contract.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records = append(f.records, fakeRecord(state))
	close(f.changed)
	f.changed = make(chan struct{})
	if state.Terminal() {
		close(f.done)
	}
}

func (f *fakeSession) Record() contract.SessionRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.records[len(f.records)-1]
}

func (f *fakeSession) Detail() contract.SessionDetail { return fakeDetail(f.Record().State) }

func (f *fakeSession) Done() <-chan struct{} { return f.done }

func (f *fakeSession) Watch(ctx context.Context) <-chan contract.SessionRecord {
	out := make(chan contract.SessionRecord)
	f.mu.Lock()
	next := len(f.records) - 1
	f.watchers++
	f.mu.Unlock()
	go func() {
		defer func() {
			f.mu.Lock()
			f.watchers--
			f.mu.Unlock()
			close(out)
		}()
		for ; ; next++ {
			record, ok := f.wait(ctx, next)
			if !ok {
				return
			}
			select {
			case out <- record:
			case <-ctx.Done():
				return
			}
			if record.State.Terminal() {
				return
			}
		}
	}()
	return out
}

func (f *fakeSession) wait(ctx context.Context, n int) (contract.SessionRecord, bool) {
	for {
		f.mu.Lock()
		records, changed := f.records, f.changed
		f.mu.Unlock()
		if n < len(records) {
			return records[n], true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return contract.SessionRecord{}, false
		}
	}
}

func (f *fakeSession) Stop(context.Context, time.Duration) (contract.SessionRecord, error) {
	f.mu.Lock()
	f.stops++
	first := f.stops == 1
	f.mu.Unlock()
	if first {
		f.enter(contract.Stopping)
		f.enter(contract.Stopped)
	}
	return f.Record(), nil
}

func (f *fakeSession) Call(ctx context.Context, id string, call *contract.ToolCall, out Output) contract.ToolResult {
	f.mu.Lock()
	f.calls = append(f.calls, id)
	f.mu.Unlock()
	return f.call(ctx, id, call, out)
}

func (f *fakeSession) counts() (calls, stops, watchers int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls), f.stops, f.watchers
}

// serveFake serves s on a new socket until the test ends.
func serveFake(t *testing.T, s Session, o Options) (path string, srv *Server) {
	t.Helper()
	path = socketDir(t) + "/s.sock"
	srv = Serve(mustListen(t, path), s, o)
	t.Cleanup(func() { closeServer(t, srv) })
	return path, srv
}

func closeServer(t *testing.T, srv *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := srv.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
	select {
	case <-srv.Done():
	case <-ctx.Done():
		t.Error("the server is not done")
	}
}

// eventually polls until ok or a generous deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
