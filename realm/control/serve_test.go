package control

import (
	"context"
	"testing"
	"time"
)

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
