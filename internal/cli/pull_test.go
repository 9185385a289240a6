package cli_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/integration/images"
	"realm.dev/integration/podmantest"
)

// serveBusybox offers an image on a registry whose layers come only when wait
// returns.
func (i *installed) serveBusybox(t *testing.T, wait func(*http.Request)) (ref string) {
	t.Helper()
	facts := podmantest.Require(t)
	registry := images.Serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
				wait(r)
			}
			next.ServeHTTP(w, r)
		})
	})
	ref = registry.Push(t, "realm/busybox:cli", images.Busybox(t))
	i.env = append(i.env, "CONTAINERS_REGISTRIES_CONF="+registry.Conf(t))
	t.Cleanup(func() {
		// Not there when the pull was refused or cut short.
		_ = exec.Command(facts.Binary, "image", "rm", "--force", "--ignore", ref).Run()
	})
	return ref
}

// A pull that takes its time is told of on a terminal, in a line that goes away.
func TestPullOnATerminal(t *testing.T) {
	i := install(t)
	ref := i.serveBusybox(t, func(*http.Request) { time.Sleep(600 * time.Millisecond) })
	term := i.terminal(t, "run", limits, "--image", ref, "--", "sh", "-c", "echo it is $(busybox | head -c 7)")
	term.sees("realm: pulling " + ref)
	term.sees("it is BusyBox")
	term.endsWith(0)
	if screen := term.text(); !strings.Contains(screen, "\r\x1b[Kit is BusyBox") {
		t.Errorf("the line was left:\n%q", screen)
	}
	if d := i.stopped(t); d.Image.Ref != ref || !strings.HasPrefix(d.Image.Digest, "sha256:") {
		t.Errorf("the detail names the image %+v", d.Image)
	}
	// The second time it is here, and nothing is said without a terminal.
	out, err := i.command("run", limits, "--image", ref, "--", "echo", "again").CombinedOutput()
	if err != nil || string(out) != "again\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// A pull is no part of a session: a signal ends it and nothing was made.
func TestSignalWhilePulling(t *testing.T) {
	i := install(t)
	asked := make(chan struct{}, 16)
	ref := i.serveBusybox(t, func(r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	cmd := i.command("run", limits, "--image", ref, "--", "true")
	out := startReading(t, cmd)
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("the registry was not asked")
	}
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(unix.SIGTERM) {
		t.Errorf("ended with %v: %s", err, out.buf.String())
	}
	if list := i.sessions(t); len(list) != 0 {
		t.Errorf("%d sessions were made", len(list))
	}
}
