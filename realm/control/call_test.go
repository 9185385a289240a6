package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
	"realm.dev/realm/control/controltest"
)

const execCall = `{"exec":{"argv":["true"]}}`

// roundTrip sends one request and returns its response.
func roundTrip(t *testing.T, path, request string) (*http.Response, []byte) {
	t.Helper()
	c := dial(t, path)
	_, err := io.WriteString(c, request)
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp, body
}

// openStream sends a request and returns a reader of its lines.
func openStream(t *testing.T, path, request string) (*net.UnixConn, *bufio.Reader) {
	t.Helper()
	c := dial(t, path)
	_, err := io.WriteString(c, request)
	must(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	must(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != typeNDJSON {
		t.Fatalf("status %d, type %q", resp.StatusCode, got)
	}
	return c, bufio.NewReader(resp.Body)
}

func nextLine[T contract.Document](t *testing.T, r *bufio.Reader) T {
	t.Helper()
	line, err := r.ReadBytes('\n')
	must(t, err)
	v, err := contract.Decode[T](line)
	must(t, err)
	return v
}

const acceptStream = "Accept: application/json;q=0.5, application/x-ndjson\r\n"

func TestRecordStream(t *testing.T) {
	session := controltest.New(contract.Pending)
	path, _ := serveFake(t, session, Options{})
	_, lines := openStream(t, path, get("/v1/record", acceptStream))
	if got := nextLine[contract.SessionRecord](t, lines); got.State != contract.Pending {
		t.Errorf("first: %s", got.State)
	}
	for _, state := range []contract.State{contract.Starting, contract.Ready, contract.Stopping, contract.Stopped} {
		session.Enter(state)
		got := nextLine[contract.SessionRecord](t, lines)
		if diff := cmp.Diff(controltest.Record(state), got); diff != "" {
			t.Error(diff)
		}
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("after the terminal record: %q, %v", rest, err)
	}
}

// A watcher that goes away is forgotten, though no transition comes.
func TestWatcherLeaves(t *testing.T) {
	session := controltest.New(contract.Ready)
	path, _ := serveFake(t, session, Options{})
	c, lines := openStream(t, path, get("/v1/record", acceptStream))
	nextLine[contract.SessionRecord](t, lines)
	// The server watches too.
	if watchers := session.Watchers(); watchers != 2 {
		t.Fatalf("%d watchers", watchers)
	}
	c.Close()
	eventually(t, "its watcher is gone", func() bool { return session.Watchers() == 1 })
}

func TestDocuments(t *testing.T) {
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{})
	_, body := roundTrip(t, path, get("/v1/session", ""))
	detail, err := contract.Decode[contract.SessionDetail](body)
	must(t, err)
	if diff := cmp.Diff(controltest.Detail(contract.Ready), detail); diff != "" {
		t.Error(diff)
	}
	resp, body := roundTrip(t, path, post("/v1/calls", "Idempotency-Key: my.call:1\r\n", execCall))
	result, err := contract.Decode[contract.ToolResult](body)
	must(t, err)
	if diff := cmp.Diff(controltest.Exited("my.call:1", 0), result); diff != "" {
		t.Error(diff)
	}
	for _, header := range []string{"Content-Type: application/json", "Cache-Control: no-store", "X-Content-Type-Options: nosniff"} {
		name, want, _ := strings.Cut(header, ": ")
		if got := resp.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A call without a key gets an id of its own each time, and one that a result
// may carry.
func TestCallIDs(t *testing.T) {
	session := controltest.New(contract.Ready)
	path, _ := serveFake(t, session, Options{})
	for range 3 {
		_, body := roundTrip(t, path, post("/v1/calls", "", execCall))
		if _, err := contract.Decode[contract.ToolResult](body); err != nil {
			t.Errorf("%v in %s", err, body)
		}
	}
	seen := map[string]bool{}
	for _, id := range session.Calls() {
		seen[id] = true
	}
	if len(seen) != 3 {
		t.Errorf("ids %v", session.Calls())
	}
}

func TestStopTwice(t *testing.T) {
	session := controltest.New(contract.Ready)
	path, _ := serveFake(t, session, Options{})
	for _, request := range []string{
		post("/v1/stop", "", `{"stop":{"graceMs":1500}}`),
		"POST /v1/stop HTTP/1.1\r\nHost: realm\r\nContent-Length: 0\r\n\r\n",
	} {
		resp, body := roundTrip(t, path, request)
		record, err := contract.Decode[contract.SessionRecord](body)
		if err != nil || resp.StatusCode != http.StatusOK || record.State != contract.Stopped {
			t.Errorf("status %d: %s, %v", resp.StatusCode, body, err)
		}
	}
	if diff := cmp.Diff([]time.Duration{1500 * time.Millisecond, 0}, session.Graces()); diff != "" {
		t.Error(diff)
	}
}

// readFrames reads all frames of a stream and joins the output of each stream,
// which must be numbered and without a gap up to a cut.
func readFrames(t *testing.T, lines *bufio.Reader) (output map[string][]byte, cut bool, result contract.ToolResult) {
	t.Helper()
	output = map[string][]byte{}
	for seq := int64(1); ; seq++ {
		frame := nextLine[contract.Frame](t, lines)
		if frame.Seq != seq {
			t.Fatalf("frame %d has number %d", seq, frame.Seq)
		}
		switch frame.Type {
		case contract.FrameOutput:
			o := frame.Output
			if int64(len(output[o.Stream])) != o.Offset && !cut {
				t.Fatalf("%s: offset %d after %d bytes", o.Stream, o.Offset, len(output[o.Stream]))
			}
			data, err := contract.DecodeContent(o.Data, o.Encoding)
			must(t, err)
			output[o.Stream] = append(output[o.Stream], data...)
		case contract.FrameError:
			if cut || frame.Error.Error.Code != contract.LimitExceeded {
				t.Errorf("error frame %v", frame.Error)
			}
			cut = true
		case contract.FrameResult:
			if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
				t.Errorf("after the result: %q, %v", rest, err)
			}
			return output, cut, *frame.Result
		default:
			t.Fatalf("frame %s", frame.Type)
		}
	}
}

// What both streams print arrives byte for byte, in whatever pieces, text and
// not; so large that it does not fit the queue.
func TestCallStream(t *testing.T) {
	want := map[string][]byte{
		"stdout": []byte(strings.Repeat("größer 𝄞\r\n\x1b]52;c;x\a{\"decision\":\"allow\"}\n", 50_000)),
		"stderr": bytes.Repeat([]byte{0xff, 0, 'a', '\n'}, 100_000),
	}
	session := controltest.New(contract.Ready)
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
		var wg sync.WaitGroup
		for stream, size := range map[string]int{"stdout": 100_003, "stderr": 4099} {
			wg.Go(func() {
				var offset int64
				for rest := want[stream]; len(rest) > 0; {
					piece := append([]byte(nil), rest[:min(size, len(rest))]...)
					out(stream, offset, piece)
					clear(piece) // the buffer is the caller's again
					offset, rest = offset+int64(len(piece)), rest[len(piece):]
				}
			})
		}
		wg.Wait()
		return controltest.Exited(id, 3)
	}
	path, _ := serveFake(t, session, Options{})
	_, lines := openStream(t, path, post("/v1/calls", acceptStream+"Idempotency-Key: k\r\n", execCall))
	output, cut, result := readFrames(t, lines)
	if cut {
		t.Error("the stream was cut")
	}
	for stream := range want {
		if !bytes.Equal(output[stream], want[stream]) {
			t.Errorf("%s: %d bytes differ from the %d printed", stream, len(output[stream]), len(want[stream]))
		}
	}
	if diff := cmp.Diff(controltest.Exited("k", 3), result); diff != "" {
		t.Error(diff)
	}
}

// What a call prints arrives while it runs.
func TestCallStreamIsLive(t *testing.T) {
	session := controltest.New(contract.Ready)
	seen := make(chan struct{})
	session.OnCall = func(ctx context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
		out("stdout", 0, []byte("first"))
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return controltest.Exited(id, 0)
	}
	path, _ := serveFake(t, session, Options{})
	_, lines := openStream(t, path, post("/v1/calls", acceptStream, execCall))
	if frame := nextLine[contract.Frame](t, lines); frame.Output == nil || frame.Output.Data != "first" {
		t.Errorf("frame %v", frame)
	}
	close(seen)
	if frame := nextLine[contract.Frame](t, lines); frame.Type != contract.FrameResult {
		t.Errorf("frame %v", frame)
	}
}

// SOCK-12: a reader that stops reading costs one stall and is told; the
// program runs on, another reader is not touched, and the result can be had.
func TestSlowReaderIsCut(t *testing.T) {
	const total = 64 << 20
	session := controltest.New(contract.Ready)
	printed := make(chan struct{}, 1)
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
		if out == nil {
			return controltest.Exited(id, 0)
		}
		piece := bytes.Repeat([]byte("a"), 64<<10)
		for offset := int64(0); offset < total; offset += int64(len(piece)) {
			out("stdout", offset, piece)
		}
		printed <- struct{}{}
		return controltest.Exited(id, 0)
	}
	path, _ := serveFake(t, session, Options{StallTimeout: 20 * time.Millisecond})
	_, lines := openStream(t, path, post("/v1/calls", acceptStream+"Idempotency-Key: slow\r\n", execCall))
	select {
	case <-printed: // though nobody has read
	case <-time.After(20 * time.Second):
		t.Fatal("the program waits for the reader")
	}
	if _, body := roundTrip(t, path, post("/v1/calls", "", execCall)); !bytes.Contains(body, []byte("exited")) {
		t.Errorf("another call: %s", body)
	}
	output, cut, result := readFrames(t, lines)
	if !cut || len(output["stdout"]) == 0 || len(output["stdout"]) >= total {
		t.Errorf("cut %v, %d bytes", cut, len(output["stdout"]))
	}
	if result.Exec == nil || result.CallID != "slow" {
		t.Errorf("result %v", result)
	}
}

// A call without a key waits for its reader as a pipe would, so nothing is
// lost; until the session stops.
func TestPausedReaderIsWaitedFor(t *testing.T) {
	for name, stops := range map[string]bool{"reads on": false, "session stops": true} {
		t.Run(name, func(t *testing.T) {
			const total = 8 << 20
			session := controltest.New(contract.Ready)
			full, printed := make(chan struct{}), make(chan struct{})
			session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
				piece := bytes.Repeat([]byte("a"), 64<<10)
				for offset := int64(0); offset < total; offset += int64(len(piece)) {
					if offset == total/2 {
						close(full) // far more than the queue and the socket hold
					}
					out("stdout", offset, piece)
				}
				close(printed)
				return controltest.Exited(id, 0)
			}
			path, _ := serveFake(t, session, Options{StallTimeout: time.Millisecond, Linger: time.Minute})
			_, lines := openStream(t, path, post("/v1/calls", acceptStream, execCall))
			if stops {
				session.Enter(contract.Stopping)
				select {
				case <-printed: // though nobody has read
				case <-time.After(20 * time.Second):
					t.Fatal("the call waits for its reader while the session stops")
				}
			} else {
				select {
				case <-full:
					t.Error("the queue takes more than it may")
				case <-time.After(100 * time.Millisecond):
				}
			}
			output, cut, _ := readFrames(t, lines)
			if cut != stops || (len(output["stdout"]) == total) == stops {
				t.Errorf("cut %v, %d bytes of %d", cut, len(output["stdout"]), total)
			}
		})
	}
}

// SOCK-12: a reader that never reads is disconnected by the write deadline.
func TestDeadReaderIsDisconnected(t *testing.T) {
	session := controltest.New(contract.Ready)
	cancelled := make(chan struct{})
	session.OnCall = func(ctx context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
		piece := bytes.Repeat([]byte("a"), 64<<10)
		for offset := int64(0); offset < 16<<20; offset += int64(len(piece)) {
			out("stdout", offset, piece)
		}
		<-ctx.Done() // it has no key, so it ends with its reader
		close(cancelled)
		return controltest.Exited(id, 0)
	}
	path, _ := serveFake(t, session, Options{PauseTimeout: 10 * time.Millisecond, WriteTimeout: 50 * time.Millisecond})
	openStream(t, path, post("/v1/calls", acceptStream, execCall))
	select {
	case <-cancelled:
	case <-time.After(20 * time.Second):
		t.Fatal("the call was not ended")
	}
}

// A client that goes away ends a call that nobody can ask for again, and only
// such a call.
func TestClientLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		headers string
		ends    bool
	}{
		"without key":           {"", true},
		"without key, streamed": {acceptStream, true},
		"with key":              {"Idempotency-Key: k\r\n", false},
		"with key, streamed":    {"Idempotency-Key: k\r\n" + acceptStream, false},
	} {
		t.Run(name, func(t *testing.T) {
			session := controltest.New(contract.Ready)
			started, release := make(chan struct{}), make(chan struct{})
			ended := make(chan error, 1)
			session.OnCall = func(ctx context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
				close(started)
				select {
				case <-ctx.Done():
				case <-release:
				}
				ended <- ctx.Err()
				return controltest.Exited(id, 0)
			}
			path, _ := serveFake(t, session, Options{})
			c := dial(t, path)
			_, err := io.WriteString(c, post("/v1/calls", tt.headers, execCall))
			must(t, err)
			<-started
			c.Close()
			if !tt.ends {
				// The server must have noticed before the call is let go.
				time.AfterFunc(100*time.Millisecond, func() { close(release) })
			}
			select {
			case err := <-ended:
				if (err != nil) != tt.ends {
					t.Errorf("the call's context: %v", err)
				}
			case <-time.After(20 * time.Second):
				t.Error("the call was not ended")
			}
		})
	}
}

// The time for the body is not the time for the call.
func TestCallOutlastsBodyTimeout(t *testing.T) {
	session := controltest.New(contract.Ready)
	session.OnCall = func(ctx context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
		select {
		case <-ctx.Done():
			return controltest.Exited(id, 1)
		case <-time.After(300 * time.Millisecond):
			return controltest.Exited(id, 0)
		}
	}
	path, _ := serveFake(t, session, Options{BodyTimeout: 100 * time.Millisecond})
	if _, body := roundTrip(t, path, post("/v1/calls", "", execCall)); !bytes.Contains(body, []byte(`"exitCode":0`)) {
		t.Errorf("the call was ended: %s", body)
	}
}

// A panic in a call is an INTERNAL result; the server goes on, and its value
// is nowhere.
func TestPanics(t *testing.T) {
	var log bytes.Buffer
	session := controltest.New(contract.Ready)
	session.OnCall = func(context.Context, string, *contract.ToolCall, Output) contract.ToolResult {
		panic("token-4711")
	}
	path, _ := serveFake(t, session, Options{Logger: textLogger(&log)})
	for _, headers := range []string{"", acceptStream} {
		resp, body := roundTrip(t, path, post("/v1/calls", headers, execCall))
		if resp.StatusCode != http.StatusOK || !bytes.Contains(body, []byte(`"INTERNAL"`)) {
			t.Errorf("status %d: %s", resp.StatusCode, body)
		}
		if bytes.Contains(body, []byte("4711")) || strings.Contains(log.String(), "4711") {
			t.Errorf("the panic's value shows: %s %s", body, log.String())
		}
	}
	if !strings.Contains(log.String(), "panicked") {
		t.Error("it was not logged")
	}
	if resp, _ := roundTrip(t, path, get("/v1/record", "")); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d afterwards", resp.StatusCode)
	}
}

// A result that does not match its schema is our defect, not the client's.
func TestInvalidResult(t *testing.T) {
	session := controltest.New(contract.Ready)
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
		return contract.ToolResult{CallID: id}
	}
	path, _ := serveFake(t, session, Options{})
	resp, body := roundTrip(t, path, post("/v1/calls", "", execCall))
	if resp.StatusCode != http.StatusInternalServerError || !bytes.Contains(body, []byte(`"INTERNAL"`)) {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	_, lines := openStream(t, path, post("/v1/calls", acceptStream, execCall))
	if _, _, result := readFrames(t, lines); contract.CodeOf(result.Error) != contract.Internal {
		t.Errorf("result %v", result)
	}
}

// LEAK-01: a secret in any part of a request comes back nowhere.
func TestSecretsAreNotEchoed(t *testing.T) {
	secret := base64.RawURLEncoding.EncodeToString([]byte("a-secret-that-must-not-come-back"))
	var log bytes.Buffer
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{Logger: textLogger(&log)})
	for name, request := range map[string]string{
		"path":     get("/v1/"+secret, ""),
		"query":    get("/v1/record?token="+secret, ""),
		"method":   secret + " /v1/record HTTP/1.1\r\nHost: realm\r\n\r\n",
		"key":      post("/v1/calls", "Idempotency-Key: /"+secret+"\r\n", stopCall),
		"type":     strings.Replace(post("/v1/calls", "", stopCall), "application/json", "text/"+secret, 1),
		"encoding": post("/v1/calls", "Content-Encoding: "+secret+"\r\n", stopCall),
		"origin":   get("/v1/record", "Origin: https://"+secret+"\r\n"),
		"tool":     post("/v1/calls", "", `{"`+secret+`":{}}`),
		"value":    post("/v1/calls", "", `{"stop":{"graceMs":"`+secret+`"}}`),
		"argv":     post("/v1/calls", "", `{"exec":{"argv":"`+secret+`"}}`),
		"env":      post("/v1/calls", "", `{"exec":{"argv":["a"],"env":{"=`+secret+`":"`+secret+`"}}}`),
		"path arg": post("/v1/calls", "", `{"read":{"path":"/`+secret+`"}}`),
		"no JSON":  post("/v1/calls", "", secret),
	} {
		resp, body := roundTrip(t, path, request)
		if resp.StatusCode == http.StatusOK {
			t.Errorf("%s: accepted", name)
		}
		// A short unknown key may be named (contract.md): the caller typed it.
		if name != "tool" && bytes.Contains(body, []byte(secret)) {
			t.Errorf("%s: %s", name, body)
		}
	}
	if strings.Contains(log.String(), secret) {
		t.Errorf("in the log: %s", log.String())
	}
}

// Two clients stop and call at once; each gets its own answer (SOCK-13).
func TestNoCrossTalk(t *testing.T) {
	session := controltest.New(contract.Ready)
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
		if out != nil {
			out("stdout", 0, []byte(id))
		}
		return controltest.Exited(id, 0)
	}
	path, _ := serveFake(t, session, Options{})
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			id := fmt.Sprintf("call-%d", i)
			_, lines := openStream(t, path, post("/v1/calls", acceptStream+"Idempotency-Key: "+id+"\r\n", execCall))
			output, _, result := readFrames(t, lines)
			if string(output["stdout"]) != id || result.CallID != id {
				t.Errorf("%s got %q and %s", id, output["stdout"], result.CallID)
			}
		})
	}
	wg.Wait()
}
