package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
	"realm.dev/realm/client"
	"realm.dev/realm/control"
	"realm.dev/realm/control/controltest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	return dir + "/s.sock"
}

// serve serves s and returns a client of it.
func serve(t *testing.T, s control.Session, o control.Options) (*client.Client, *control.Server) {
	t.Helper()
	path := socketPath(t)
	l, err := control.Listen(path)
	must(t, err)
	srv := control.Serve(l, s, o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = srv.Close(ctx) // a test may have cut requests
	})
	c, err := client.Dial(path)
	must(t, err)
	return c, srv
}

func wantCode(t *testing.T, err error, want contract.Code) {
	t.Helper()
	if e, ok := errors.AsType[*contract.Error](err); !ok || e.Code != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func execCall() *contract.ToolCall {
	return &contract.ToolCall{Exec: &contract.ExecCall{Argv: []string{"true"}}}
}

func TestDocuments(t *testing.T) {
	session := controltest.New(contract.Ready)
	c, _ := serve(t, session, control.Options{})
	record, err := c.Record(t.Context())
	must(t, err)
	if diff := cmp.Diff(controltest.Record(contract.Ready), record); diff != "" {
		t.Error(diff)
	}
	detail, err := c.Session(t.Context())
	must(t, err)
	if diff := cmp.Diff(controltest.Detail(contract.Ready), detail); diff != "" {
		t.Error(diff)
	}
	for _, grace := range []time.Duration{0, 1500 * time.Microsecond} {
		record, err = c.Stop(t.Context(), grace)
		must(t, err)
		if diff := cmp.Diff(controltest.Record(contract.Stopped), record); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]time.Duration{0, 2 * time.Millisecond}, session.Graces()); diff != "" {
		t.Error(diff)
	}
}

func TestWatchRecord(t *testing.T) {
	session := controltest.New(contract.Ready)
	c, _ := serve(t, session, control.Options{})
	var states []contract.State
	for record, err := range c.WatchRecord(t.Context()) {
		must(t, err)
		states = append(states, record.State)
		switch record.State {
		case contract.Ready:
			session.Enter(contract.Stopping)
		case contract.Stopping:
			session.Enter(contract.Stopped)
		default:
		}
	}
	if diff := cmp.Diff([]contract.State{contract.Ready, contract.Stopping, contract.Stopped}, states); diff != "" {
		t.Error(diff)
	}
}

// A stream that ends before the session does is an error, not an end.
func TestWatchRecordIsCut(t *testing.T) {
	session := controltest.New(contract.Ready)
	c, srv := serve(t, session, control.Options{})
	var last error
	for _, err := range c.WatchRecord(t.Context()) {
		if last = err; err != nil {
			break
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := srv.Close(ctx); err == nil {
			t.Error("close cut nothing")
		}
	}
	wantCode(t, last, contract.SessionLost)
}

func TestCall(t *testing.T) {
	session := controltest.New(contract.Ready)
	want := map[string][]byte{"stdout": []byte("größe\n"), "stderr": {0xff, 0}}
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out controltest.Output) contract.ToolResult {
		if out != nil {
			for _, stream := range []string{"stdout", "stderr"} {
				out(stream, 0, want[stream])
			}
		}
		return controltest.Exited(id, 3)
	}
	c, _ := serve(t, session, control.Options{})
	got := map[string][]byte{}
	output := func(stream string, offset int64, p []byte) {
		if offset != int64(len(got[stream])) {
			t.Errorf("%s: offset %d", stream, offset)
		}
		got[stream] = append(got[stream], p...)
	}
	for id, output := range map[string]func(string, int64, []byte){"a:1": nil, "b": output} {
		result, err := c.Call(t.Context(), execCall(), client.CallOptions{ID: id, Output: output})
		must(t, err)
		if diff := cmp.Diff(controltest.Exited(id, 3), result); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a tool says is in the result; what is wrong with the request is the error.
func TestCallErrors(t *testing.T) {
	session := controltest.New(contract.Ready)
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, _ controltest.Output) contract.ToolResult {
		return contract.ToolResult{CallID: id, Error: contract.Errorf(contract.SessionState, "it stops").WithHint("wait")}
	}
	c, _ := serve(t, session, control.Options{})
	result, err := c.Call(t.Context(), execCall(), client.CallOptions{})
	must(t, err)
	if result.Error == nil || result.Error.Code != contract.SessionState || result.Error.Detail != "it stops" || result.Error.Hint != "wait" {
		t.Errorf("got %v", result.Error)
	}
	for id, call := range map[string]*contract.ToolCall{"": {}, "../x": execCall()} {
		_, err := c.Call(t.Context(), call, client.CallOptions{ID: id})
		wantCode(t, err, contract.SchemaInvalid)
	}
}

// The caller's context ends a call without an id.
func TestCallIsCancelled(t *testing.T) {
	session := controltest.New(contract.Ready)
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("a person pressed a key")
	ended := make(chan struct{})
	session.OnCall = func(callCtx context.Context, id string, _ *contract.ToolCall, _ controltest.Output) contract.ToolResult {
		cancel(cause)
		<-callCtx.Done()
		close(ended)
		return controltest.Exited(id, 0)
	}
	c, _ := serve(t, session, control.Options{})
	_, err := c.Call(ctx, execCall(), client.CallOptions{Output: func(string, int64, []byte) {}})
	wantCode(t, err, contract.SessionLost)
	if !errors.Is(err, cause) {
		t.Errorf("the cause is not %v", err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the call goes on")
	}
}

func TestSlowCallerIsTold(t *testing.T) {
	session := controltest.New(contract.Ready)
	printed := make(chan struct{})
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out controltest.Output) contract.ToolResult {
		piece := bytes.Repeat([]byte("a"), 64<<10)
		for offset := int64(0); offset < 32<<20; offset += int64(len(piece)) {
			out("stdout", offset, piece)
		}
		close(printed)
		return controltest.Exited(id, 0)
	}
	c, _ := serve(t, session, control.Options{StallTimeout: 10 * time.Millisecond})
	result, err := c.Call(t.Context(), execCall(), client.CallOptions{
		ID:     "k",
		Output: func(string, int64, []byte) { <-printed },
	})
	wantCode(t, err, contract.LimitExceeded)
	if result.Exec == nil {
		t.Errorf("result %v", result)
	}
}

func TestDialRefuses(t *testing.T) {
	tests := map[string]struct {
		make func(t *testing.T, path string)
		want contract.Code
	}{
		"nothing": {func(*testing.T, string) {}, contract.SessionNotFound},
		"file":    {func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, contract.PathRefused},
		"link": {func(t *testing.T, path string) {
			listen(t, path+".real", "")
			must(t, os.Symlink(path+".real", path))
		}, contract.PathRefused},
		"another user": {func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root to make a file of another user")
			}
			listen(t, path, "")
			must(t, os.Chown(path, 65534, 65534))
		}, contract.PathRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			tt.make(t, path)
			_, err := client.Dial(path)
			wantCode(t, err, tt.want)
		})
	}
}

func TestNobodyListens(t *testing.T) {
	c, srv := serve(t, controltest.New(contract.Ready), control.Options{})
	must(t, srv.Close(t.Context()))
	_, err := c.Record(t.Context())
	wantCode(t, err, contract.SessionNotFound)
}

// listen answers every connection with the bytes of answer, whatever it is asked.
func listen(t *testing.T, path, answer string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 64<<10))
				fmt.Fprint(c, answer)
			}()
		}
	}()
}

func response(status int, kind, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, kind, len(body), body)
}

// A server that is not what it should be gets an error of the catalogue, and
// no more memory than a document has.
func TestHostileServer(t *testing.T) {
	const json, ndjson = "application/json", "application/x-ndjson"
	tests := map[string]struct {
		answer string
		stream bool
		want   contract.Code
	}{
		"nothing":             {"", false, contract.SessionLost},
		"no HTTP":             {"hello\n", false, contract.SessionLost},
		"cut":                 {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{", false, contract.SessionLost},
		"header flood":        {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("b", 1<<20), false, contract.SessionLost},
		"redirect":            {"HTTP/1.1 302 X\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n", false, contract.Internal},
		"other type":          {response(200, "text/html", "{}"), false, contract.Internal},
		"no record":           {response(200, json, `{"token":"x"}`), false, contract.Internal},
		"too large":           {response(200, json, strings.Repeat(" ", contract.MaxRecordBytes+1)), false, contract.Internal},
		"error":               {response(409, json, `{"code":"SESSION_STATE","reason":"r"}`), false, contract.SessionState},
		"error without code":  {response(500, json, `{}`), false, contract.Internal},
		"error of other code": {response(500, json, `{"code":"EVIL","reason":"r"}`), false, contract.Internal},
		"error without body":  {response(500, json, ""), false, contract.Internal},
		"stream without end":  {response(200, ndjson, `{"seq":1,"type":"output","output":{"callId":"a","stream":"stdout","offset":0,"data":"x","encoding":"utf8"}}`+"\n"), true, contract.SessionLost},
		"half a frame":        {response(200, ndjson, `{"seq":1,`), true, contract.SessionLost},
		"no frame":            {response(200, ndjson, "{}\n"), true, contract.Internal},
		"foreign frame":       {response(200, ndjson, `{"seq":1,"type":"cancel","cancel":{"callId":"a"}}`+"\n"), true, contract.Internal},
		"bad base64":          {response(200, ndjson, `{"seq":1,"type":"output","output":{"callId":"a","stream":"stdout","offset":0,"data":"x","encoding":"base64"}}`+"\n"), true, contract.Internal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			listen(t, path, tt.answer)
			c, err := client.Dial(path)
			must(t, err)
			if tt.stream {
				_, err = c.Call(t.Context(), execCall(), client.CallOptions{Output: func(string, int64, []byte) {}})
			} else {
				_, err = c.Record(t.Context())
			}
			wantCode(t, err, tt.want)
		})
	}
}
