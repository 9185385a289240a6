package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"realm.dev/contract"
	"realm.dev/realm/control/controltest"
)

// lockedWriter lets a test read what a logger of several goroutines wrote.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func textLogger(b *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(&lockedWriter{w: b}, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// The terminal record can be read until Linger is over; then the socket is gone.
func TestTerminalRecordLingers(t *testing.T) {
	session := controltest.New(contract.Ready)
	path, srv := serveFake(t, session, Options{Linger: 200 * time.Millisecond})
	_, lines := openStream(t, path, get("/v1/record", acceptStream))
	nextLine[contract.SessionRecord](t, lines)
	session.Enter(contract.Failed)
	if got := nextLine[contract.SessionRecord](t, lines); got.State != contract.Failed {
		t.Errorf("stream: %s", got.State)
	}
	if _, body := roundTrip(t, path, get("/v1/record", "")); !bytes.Contains(body, []byte(`"failed"`)) {
		t.Errorf("record: %s", body)
	}
	select {
	case <-srv.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the server does not end with its session")
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// Close waits for what runs, and takes nothing new.
func TestCloseIsGraceful(t *testing.T) {
	session := controltest.New(contract.Ready)
	started, release := make(chan struct{}), make(chan struct{})
	session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
		close(started)
		<-release
		return controltest.Exited(id, 7)
	}
	path, srv := serveFake(t, session, Options{})
	answer := make(chan []byte)
	go func() {
		_, body := roundTrip(t, path, post("/v1/calls", "", execCall))
		answer <- body
	}()
	<-started
	closed := make(chan error)
	go func() { closed <- srv.Close(t.Context()) }()
	eventually(t, "the socket is gone", func() bool {
		_, err := net.Dial("unix", path)
		return errors.Is(err, fs.ErrNotExist)
	})
	close(release)
	if body := <-answer; !bytes.Contains(body, []byte(`"exitCode":7`)) {
		t.Errorf("got %s", body)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// What still runs when Close's time is over is cut: calls with a key too.
func TestCloseCutsWhatIsLeft(t *testing.T) {
	for name, headers := range map[string]string{"without key": "", "with key": "Idempotency-Key: k\r\n", "streamed": acceptStream} {
		t.Run(name, func(t *testing.T) {
			session := controltest.New(contract.Ready)
			started := make(chan struct{})
			session.OnCall = func(ctx context.Context, id string, _ *contract.ToolCall, _ Output) contract.ToolResult {
				close(started)
				<-ctx.Done()
				return controltest.Exited(id, 0)
			}
			path := socketDir(t) + "/s.sock"
			srv := Serve(mustListen(t, path), session, Options{})
			c := dial(t, path)
			_, err := io.WriteString(c, post("/v1/calls", headers, execCall))
			must(t, err)
			<-started
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := srv.Close(ctx); contract.CodeOf(err) != contract.Internal {
				t.Errorf("close: %v", err)
			}
			select {
			case <-srv.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("the call goes on")
			}
		})
	}
}

// No goroutine is left behind, whatever clients did.
func TestHandlersEnd(t *testing.T) {
	session := controltest.New(contract.Ready)
	path := socketDir(t) + "/s.sock"
	srv := Serve(mustListen(t, path), session, Options{})
	for range 4 {
		_, lines := openStream(t, path, get("/v1/record", acceptStream))
		nextLine[contract.SessionRecord](t, lines)
	}
	session.Enter(contract.Failed)
	closeServer(t, srv)
	if watchers := session.Watchers(); watchers != 0 {
		t.Errorf("%d watchers are left", watchers)
	}
}

func TestBodyLimit(t *testing.T) {
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{MaxBodyBytes: 1 << 10})
	large := `{"exec":{"argv":["` + string(bytes.Repeat([]byte("a"), 1<<10)) + `"]}}`
	resp, body := roundTrip(t, path, post("/v1/calls", "", large))
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
}

func BenchmarkRequest(b *testing.B) {
	path, srv := serveBenchmark(b, controltest.New(contract.Ready))
	defer srv.Close(context.Background())
	exchange(b, path, post("/v1/calls", "", execCall))
}

func exchange(b *testing.B, path, request string) {
	b.Helper()
	for b.Loop() {
		c, err := net.Dial("unix", path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// BenchmarkStream sends 16 MiB of output as frames.
func BenchmarkStream(b *testing.B) {
	for name, fill := range map[string]byte{"text": 'a', "binary": 0xff} {
		b.Run(name, func(b *testing.B) {
			session := controltest.New(contract.Ready)
			session.OnCall = func(_ context.Context, id string, _ *contract.ToolCall, out Output) contract.ToolResult {
				piece := bytes.Repeat([]byte{fill}, 256<<10)
				for offset := int64(0); offset < 16<<20; offset += int64(len(piece)) {
					out("stdout", offset, piece)
				}
				return controltest.Exited(id, 0)
			}
			path, srv := serveBenchmark(b, session)
			defer srv.Close(context.Background())
			b.SetBytes(16 << 20)
			exchange(b, path, post("/v1/calls", acceptStream, execCall))
		})
	}
}

func serveBenchmark(b *testing.B, s Session) (string, *Server) {
	b.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	l, err := Listen(dir + "/s.sock")
	if err != nil {
		b.Fatal(err)
	}
	return dir + "/s.sock", Serve(l, s, Options{})
}
