package podman

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/integration/images"
	"realm.dev/integration/podmantest"
)

// serve starts a registry that counts requests, and lets services of this test
// use it.
func serve(t *testing.T, wrap ...func(http.Handler) http.Handler) (*images.Registry, *atomic.Int64) {
	t.Helper()
	podmantest.Require(t)
	requests := new(atomic.Int64)
	count := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(w, r)
		})
	}
	reg := images.Serve(t, append(wrap, count)...)
	t.Setenv("CONTAINERS_REGISTRIES_CONF", reg.Conf(t))
	return reg, requests
}

// ensure pulls an image, and removes it with the test.
func ensure(t *testing.T, e *Engine, ref string) container.Image {
	t.Helper()
	image, err := e.EnsureImage(t.Context(), ref, nil)
	if err != nil {
		t.Fatalf("%v: %v", err, contract.AsError(err).Cause)
	}
	t.Cleanup(func() { removeImage(t, image.ID) })
	return image
}

func TestEnsureImage(t *testing.T) {
	reg, requests := serve(t, slowBlobs)
	pushed, err := random.Image(1<<20, 2)
	if err != nil {
		t.Fatal(err)
	}
	pushed = forThisMachine(t, pushed)
	ref := reg.Push(t, "app:v1", pushed)
	digest, err := pushed.Digest()
	if err != nil {
		t.Fatal(err)
	}
	id, err := pushed.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	e := open(t)

	layers, most := map[string]bool{}, int64(0)
	image, err := e.EnsureImage(t.Context(), ref, func(p container.Progress) {
		layers[p.Layer] = true
		most = max(most, p.Total)
	})
	if err != nil {
		t.Fatalf("%v: %v", err, contract.AsError(err).Cause)
	}
	t.Cleanup(func() { removeImage(t, image.ID) })
	if image.Digest != digest.String() || strings.TrimPrefix(image.ID, "sha256:") != id.Hex {
		t.Errorf("got %+v, want the digest %s and the id %s", image, digest, id)
	}
	if len(layers) < 2 || most < 1<<20 {
		t.Errorf("progress told of %d layers and %d bytes", len(layers), most)
	}

	before := requests.Load()
	byDigest := reg.Host + "/app@" + digest.String()
	for _, again := range []string{ref, byDigest} {
		same, err := e.EnsureImage(t.Context(), again, nil)
		if err != nil || same.ID != image.ID {
			t.Errorf("again: %+v (%v)", same, err)
		}
	}
	if n := requests.Load() - before; n != 0 {
		t.Errorf("%d requests for an image that is here", n)
	}
	for name, missing := range map[string]string{
		"tag": reg.Host + "/app:v2", "repository": reg.Host + "/none:v1",
		"digest":   reg.Host + "/app@sha256:" + strings.Repeat("0", 64),
		"registry": "127.0.0.1:1/app:v1",
	} {
		if _, err := e.EnsureImage(t.Context(), missing, nil); contract.CodeOf(err) != contract.ImageUnavailable {
			t.Errorf("a %s that is not there: %v", name, err)
		}
	}
}

// slowBlobs makes the bytes of layers come slowly enough to be counted: Podman
// tells about a layer once a second.
func slowBlobs(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			w = &slowWriter{ResponseWriter: w}
		}
		next.ServeHTTP(w, r)
	})
}

type slowWriter struct {
	http.ResponseWriter
	paused bool
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.paused || len(p) < 1024 {
		return w.ResponseWriter.Write(p)
	}
	w.paused = true
	n, err := w.ResponseWriter.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
	<-time.After(1200 * time.Millisecond)
	rest, err := w.ResponseWriter.Write(p[n:])
	return n + rest, err
}

// forThisMachine names our processor in an image's configuration.
func forThisMachine(t *testing.T, img v1.Image) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", goarch
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestEnsureImageIsCancelled ends a pull from a registry that never answers.
func TestEnsureImageIsCancelled(t *testing.T) {
	stalled, release := make(chan struct{}, 16), make(chan struct{})
	reg, _ := serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") && r.Method == http.MethodGet {
				stalled <- struct{}{}
				<-release
			}
			next.ServeHTTP(w, r)
		})
	})
	t.Cleanup(func() { close(release) })
	e := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := e.EnsureImage(ctx, reg.Host+"/slow:v1", nil)
		done <- err
	}()
	select {
	case <-stalled:
	case err := <-done:
		t.Fatalf("the registry was not asked: %v", err)
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the pull did not end with its context")
	}
}

// TestImageForAnotherMachine: for those an engine may choose another runtime.
func TestImageForAnotherMachine(t *testing.T) {
	reg, _ := serve(t)
	img := images.Busybox(t)
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "wasi", "wasm"
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		t.Fatal(err)
	}
	ref := reg.Push(t, "wasm:v1", img)
	e := open(t)
	t.Cleanup(func() { removeImage(t, ref) })
	if _, err := e.EnsureImage(t.Context(), ref, nil); contract.CodeOf(err) != contract.ImageUnavailable {
		t.Errorf("got %v, want IMAGE_UNAVAILABLE", err)
	}
}

func removeImage(t *testing.T, ref string) {
	t.Helper()
	facts := podmantest.Require(t)
	if out, err := execCommand(facts.Binary, "image", "rm", "--force", "--ignore", ref); err != nil {
		t.Errorf("podman image rm: %v: %s", err, out)
	}
}

// inImage turns a spec into one of an image.
func inImage(image container.Image) func(*container.Spec) {
	return func(s *container.Spec) { s.Rootfs, s.Image = "", image.ID }
}

// TestHostileImages runs each image of tricks up to its PID 1, or it must be
// refused before that.
func TestHostileImages(t *testing.T) {
	reg, _ := serve(t)
	e := open(t)
	// What Podman refuses by itself, and mounts that are led elsewhere.
	refused := map[string]bool{"env": true, "everything": true, "links": true}
	for _, h := range images.HostileImages() {
		t.Run(h.Name, func(t *testing.T) {
			image := ensure(t, e, reg.Push(t, "hostile:"+h.Name, h.Image(t)))
			for _, env := range image.Env {
				if name, _, ok := strings.Cut(env, "="); !ok || name == "" || strings.Contains(name, "*") {
					t.Errorf("the image's environment has %q", env)
				}
			}
			b := specOf(t, e, inImage(image))
			t.Cleanup(b.remove)
			if err := b.upToStart(); err != nil {
				if !refused[h.Name] {
					t.Fatalf("an image that tries %s: %v: %v", h.Tries, err, contract.AsError(err).Cause)
				}
				return
			}
			if refused[h.Name] {
				t.Errorf("an image that tries %s ran", h.Tries)
			}
			b.clean()
			if _, err := os.Lstat(images.Witness); err == nil {
				t.Errorf("an image that tries %s left its witness on the host", h.Tries)
			}
			if resp := b.guest.run("cat", images.Witness); resp.Code == 0 {
				t.Errorf("an image that tries %s left its witness inside", h.Tries)
			}
			status := b.guest.run("cat", "/proc/self/status")
			for _, line := range []string{"CapEff:\t0000000000000000", "CapBnd:\t00000000000000e0", "NoNewPrivs:\t1", "Seccomp:\t2"} {
				if !strings.Contains(status.Output, line) {
					t.Errorf("an image that tries %s: no %q in %s", h.Tries, line, status.Output)
				}
			}
			if resp := b.guest.run("write", "/etc/new", "x"); resp.Code == 0 {
				t.Error("the root is writable")
			}
		})
	}
}

// TestUserRoot: programs are root of the namespace, as package managers need it.
func TestUserRoot(t *testing.T) {
	reg, _ := serve(t)
	e := open(t)
	image := ensure(t, e, reg.Push(t, "root:v1", images.Busybox(t)))
	b := specOf(t, e, inImage(image), func(s *container.Spec) { s.User.Root = true }).start()
	_, err := e.ReadBack(t.Context(), b.id, b.Spec)
	b.must(err)
	work := b.Workspace.Destination
	for _, script := range []string{
		"touch /etc/new && chmod 600 /etc/new",
		"touch " + work + "/mine",
		"mkdir /var/pkg && touch /var/pkg/x && chown 33:33 /var/pkg/x && test $(stat -c %u /var/pkg/x) = 33",
	} {
		if resp := b.guest.runAs(0, "/bin/sh", "-c", script); resp.Code != 0 {
			t.Errorf("%s: %+v", script, resp)
		}
	}
	for _, script := range []string{"chmod 4755 /etc/new", "chmod 4755 " + work + "/mine", "mount -t tmpfs t /mnt", "unshare -U true"} {
		if resp := b.guest.runAs(0, "/bin/sh", "-c", script); resp.Code == 0 {
			t.Errorf("%s worked", script)
		}
	}
	owned(t, b, work+"/mine")
	noSetID(t, b.Workspace.Source)
}
