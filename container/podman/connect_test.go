package podman

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"realm.dev/container"
	"realm.dev/contract"
)

// engineAt serves handler on a socket, as an engine does.
func engineAt(t *testing.T, handler http.Handler) string {
	t.Helper()
	socket := filepath.Join(scratch(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return "unix://" + socket
}

// pinging answers pings as Podman of a version does, and the rest by next.
func pinging(version string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if filepath.Base(r.URL.Path) == "_ping" {
			w.Header().Set("Libpod-Api-Version", version)
			return
		}
		next(w, r)
	})
}

func unused(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func TestOpenVersions(t *testing.T) {
	for version, want := range map[string]contract.Code{
		"3.4.4": contract.PodmanUnsupportedVersion, "4.9.3": contract.PodmanUnsupportedVersion, "4.99.99-dev": contract.PodmanUnsupportedVersion,
		"5.0.0": "", "5.8.8": "", "6.1.0-rc1": "", "10.0.0": "",
		"": contract.PodmanUnavailable, "five": contract.PodmanUnavailable, "5": contract.PodmanUnavailable,
	} {
		e, err := Open(t.Context(), Options{URL: engineAt(t, pinging(version, unused)), RuntimeDir: t.TempDir()})
		if contract.CodeOf(err) != want {
			t.Errorf("%q: got %v, want %q", version, err, want)
		}
		if err == nil {
			e.Close()
		}
	}
}

func TestUnsupportedVersionSaysFoundAndNeeded(t *testing.T) {
	_, err := Open(t.Context(), Options{URL: engineAt(t, pinging("4.9.3", unused)), RuntimeDir: t.TempDir()})
	if want := "PODMAN_UNSUPPORTED_VERSION: found Podman 4.9.3, needed 5.0.0 or newer"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOpenRefusesAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{
		"tcp": "tcp://127.0.0.1:2375", "ssh": "ssh://root@example.test/run/podman/podman.sock", "http": "http://127.0.0.1", "a path": "/run/podman/podman.sock",
		"a relative socket": "unix://run/podman.sock", "no path": "unix://", "an abstract socket": "unix:@podman",
		"no listener": "unix:///nonexistent/podman.sock", "a file": "unix://" + file, "noise": "://\x7f",
		"not an engine": engineAt(t, http.HandlerFunc(unused)),
	} {
		_, err := Open(t.Context(), Options{URL: url, RuntimeDir: t.TempDir()})
		if contract.CodeOf(err) != contract.PodmanUnavailable || contract.AsError(err).Hint == "" {
			t.Errorf("%s: got %v, want PODMAN_UNAVAILABLE with a hint", name, err)
		}
	}
}

func TestOpenNeedsARuntimeDir(t *testing.T) {
	for _, dir := range []string{"", "run"} {
		_, err := Open(t.Context(), Options{URL: engineAt(t, pinging("5.8.8", unused)), RuntimeDir: dir})
		if contract.CodeOf(err) != contract.Internal {
			t.Errorf("%q: got %v, want INTERNAL", dir, err)
		}
	}
}

func TestContainerHostIsTaken(t *testing.T) {
	t.Setenv("CONTAINER_HOST", "tcp://127.0.0.1:2375")
	if _, err := Open(t.Context(), Options{RuntimeDir: t.TempDir()}); contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Errorf("got %v", err)
	}
	t.Setenv("CONTAINER_HOST", engineAt(t, pinging("5.8.8", unused)))
	e, err := Open(t.Context(), Options{RuntimeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

// TestNoPodmanAnywhere is a machine without Podman.
func TestNoPodmanAnywhere(t *testing.T) {
	withoutEnv(t, "CONTAINER_HOST")
	t.Setenv("PATH", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	if _, err := os.Stat("/run/podman/podman.sock"); err == nil {
		t.Skip("the system's podman.socket listens here")
	}
	_, err := Open(t.Context(), Options{RuntimeDir: t.TempDir()})
	if contract.CodeOf(err) != contract.PodmanUnavailable || contract.AsError(err).Hint == "" {
		t.Errorf("got %v, want PODMAN_UNAVAILABLE with a hint", err)
	}
}

func TestCheckPeerOfAnotherPidNamespace(t *testing.T) {
	for text, want := range map[string]bool{
		"Name:\tx\nNSpid:\t7\n": false, "NSpid:\t7\t1\n": true, "NSpid:\t90\t7\t1\n": true,
	} {
		file := filepath.Join(t.TempDir(), "status")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := inNestedPidNamespace(file); err != nil || got != want {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	file := filepath.Join(t.TempDir(), "status")
	if err := os.WriteFile(file, []byte("Name:\tx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := inNestedPidNamespace(file); err == nil {
		t.Error("a status without NSpid proves nothing")
	}
}

// TestEachRequestIsSentOnce: the library repeats what fails on the way, a create
// too.
func TestEachRequestIsSentOnce(t *testing.T) {
	var requests atomic.Int64
	hangUp := func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		requests.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}
	e, err := Open(t.Context(), Options{URL: engineAt(t, pinging("5.8.8", hangUp)), RuntimeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.facts = rootful()
	for name, op := range map[string]func() error{
		"create": func() error {
			_, err := e.Create(t.Context(), sample())
			return err
		},
		"init":   func() error { return e.Init(t.Context(), "x") },
		"start":  func() error { return e.Start(t.Context(), "x") },
		"remove": func() error { return e.Remove(t.Context(), "x") },
		"signal": func() error { return e.Signal(t.Context(), "x", 9) },
	} {
		requests.Store(0)
		if err := op(); contract.CodeOf(err) != contract.PodmanUnavailable {
			t.Errorf("%s: got %v", name, err)
		}
		if n := requests.Load(); n != 1 {
			t.Errorf("%s was sent %d times", name, n)
		}
	}
}

func TestErrorsOfTheEngine(t *testing.T) {
	const secret = "s3cret-value"
	status, body := 0, ""
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	e, err := Open(t.Context(), Options{URL: engineAt(t, pinging("5.8.8", answer)), RuntimeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for name, tt := range map[string]struct {
		status int
		body   string
		want   contract.Code
	}{
		"not found":  {404, `{"cause":"no such container","message":"no container ` + secret + `","response":404}`, contract.SessionNotFound},
		"a conflict": {409, `{"cause":"x","message":"` + secret + `","response":409}`, contract.PodmanUnavailable},
		"broken":     {500, `{"cause":"x","message":"` + secret + `","response":500}`, contract.PodmanUnavailable},
		"no JSON":    {500, secret, contract.PodmanUnavailable},
		"bad JSON":   {200, `{"Id": [` + secret, contract.PodmanUnavailable},
		"another":    {200, `[1,2,3]`, contract.PodmanUnavailable},
	} {
		status, body = tt.status, tt.body
		_, err := e.Inspect(t.Context(), "x")
		if contract.CodeOf(err) != tt.want {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
		if data := contract.AsError(err); strings.Contains(data.Detail+data.Hint+err.Error(), secret) {
			t.Errorf("%s: the error tells what the engine wrote: %v", name, err)
		}
	}
}

// TestCreateFindsWhoseContainerItIs: Podman has no status for a name that is taken.
func TestCreateFindsWhoseContainerItIs(t *testing.T) {
	labels := ""
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"message":"the container name is already in use","response":500}`)
			return
		}
		_, _ = io.WriteString(w, `{"Id":"abc","Name":"realm-s1","Config":{"Labels":`+labels+`},"State":{"Status":"created"}}`)
	}
	e, err := Open(t.Context(), Options{URL: engineAt(t, pinging("5.8.8", answer)), RuntimeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.facts = rootful()
	labels = `{"` + container.LabelRealm + `":"local","` + container.LabelSession + `":"s1"}`
	if id, err := e.Create(t.Context(), sample()); err != nil || id != "abc" {
		t.Errorf("ours: got %q, %v", id, err)
	}
	for _, labels = range []string{`{}`, `null`, `{"` + container.LabelRealm + `":"other","` + container.LabelSession + `":"s1"}`} {
		if id, err := e.Create(t.Context(), sample()); contract.CodeOf(err) != contract.PodmanUnavailable {
			t.Errorf("labels %s: got %q, %v", labels, id, err)
		}
	}
}

// TestCallsEndWithTheirContext against an engine that never answers.
func TestCallsEndWithTheirContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	block := func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}
	e, err := Open(t.Context(), Options{URL: engineAt(t, pinging("5.8.8", block)), RuntimeDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.Inspect(ctx, "x")
		done <- err
	}()
	<-asked
	cancel()
	if err := <-done; contract.CodeOf(err) != contract.PodmanUnavailable || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOperationsAreBounded(t *testing.T) {
	e := newEngine(nil, "", nil)
	for range cap(e.removals) {
		if _, err := acquire(t.Context(), e.removals); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// A slot that is free is not taken either.
	for _, slots := range []chan struct{}{e.removals, e.creates} {
		for range 10 {
			if _, err := acquire(ctx, slots); contract.CodeOf(err) != contract.PodmanUnavailable || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
	}
	if cap(e.removals) != 2 || cap(e.creates) < 2 {
		t.Errorf("%d removals and %d creates at once", cap(e.removals), cap(e.creates))
	}
}
