package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRedial: calls go on without a link, init finds a new owner, and that one
// can list and end them.
func TestRedial(t *testing.T) {
	b := newBox(t)
	if h := b.link.Hello(); h.Resumed || h.PID != 1 || h.Protocol != Version || len(h.Calls) > 0 {
		t.Fatalf("%+v", h)
	}
	r := b.request("sh", "-c", "while :; do echo x >>ticks; sleep 0.01; done")
	p := b.exec(r)
	b.link.Close()
	if err := b.link.Err(); !errors.Is(err, ErrClosed) {
		t.Errorf("link: %v", err)
	}
	if _, err := p.Wait(b.context()); !errors.Is(err, ErrLost) {
		t.Errorf("wait: %v", err)
	}
	if _, err := b.link.Exec(b.context(), b.request("true")); !errors.Is(err, ErrClosed) {
		t.Errorf("exec: %v", err)
	}
	l, err := Listen(b.dir)
	if err != nil {
		t.Fatal(err)
	}
	if b.link, err = l.Accept(b.context(), b.pid); err != nil {
		t.Fatal(err)
	}
	defer b.link.Close()
	if h := b.link.Hello(); !h.Resumed || !slices.Equal(h.Calls, []string{r.ID}) {
		t.Errorf("%+v", h)
	}
	ticks := filepath.Join(b.workspace, "ticks")
	before, err := os.Stat(ticks)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call goes on", func() bool {
		now, err := os.Stat(ticks)
		return err == nil && now.Size() > before.Size()
	})
	if len(b.processes()[r.ID]) == 0 {
		t.Error("the call is not listed")
	}
	if err := b.link.Kill(b.context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if n := b.programs(); n != 0 {
		t.Errorf("%d programs are left", n)
	}
}

func TestOwnerGrace(t *testing.T) {
	b := startBox(t, 300*time.Millisecond)
	p := b.exec(b.request("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo up; exec sleep 1000"))
	b.waitForOutput(p)
	b.link.Close()
	select {
	case <-b.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("init outlives its owner")
	}
	if left := b.hostProcesses(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestAccept: only the expected process gets in, and the door closes.
func TestAccept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30), strings.Repeat("path", 30))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	d, err := os.Open(dir) // the path is too long for a socket address
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	imposter, err := net.Dial("unix", "/proc/self/fd/"+itoa(int(d.Fd()))+"/"+SocketName)
	if err != nil {
		t.Fatal(err)
	}
	defer imposter.Close()
	ctx, cancel := context.WithCancel(context.Background())
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept(ctx, os.Getpid()+1)
		accepted <- err
	}()
	setReadDeadline(t, imposter, time.Now().Add(20*time.Second))
	if _, err := imposter.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the imposter: %v", err)
	}
	cancel()
	if err := <-accepted; !errors.Is(err, context.Canceled) {
		t.Errorf("accept: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, SocketName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

// TestImposterFirst: a peer that is not init does not keep init out.
func TestImposterFirst(t *testing.T) {
	b := newBox(t, func(c *stageConfig) {
		imposter, err := net.Dial("unix", filepath.Join(c.Link, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { imposter.Close() })
	})
	if got := b.sh("ls /run/realm/link; test -w /run/realm/link || echo read-only"); got != "read-only" {
		t.Errorf("inside: %q", got)
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second finds what the first left
		l, err := Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		l.file.Close()
	}
	info, err := os.Stat(filepath.Join(dir, SocketName))
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("%v, %v", info, err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(other); err == nil {
		t.Error("replaced a file that is no socket")
	}
	if _, err := Listen(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// TestCancelledExec: a caller that gives up leaves nothing running.
func TestCancelledExec(t *testing.T) {
	b := newBox(t)
	for range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if p, err := b.link.Exec(ctx, b.request("sleep", "1000")); err == nil {
			p.Kill(b.context()) // it was faster
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	eventually(t, "nothing runs", func() bool { return b.programs() == 0 })
}
