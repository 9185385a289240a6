package images

import (
	"fmt"
	"io"
	"log" //nolint:depguard // the registry library takes this logger and no other
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// A Registry serves images over plain HTTP on loopback.
type Registry struct {
	Host string // 127.0.0.1:port
}

// Serve starts a registry that ends with the test. Each wrap sees the requests
// before the registry does, to refuse, delay or count them.
func Serve(t testing.TB, wrap ...func(http.Handler) http.Handler) *Registry {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	for _, w := range wrap {
		handler = w(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &Registry{Host: strings.TrimPrefix(server.URL, "http://")}
}

// Push stores img under repository:tag and returns its full reference.
func (r *Registry) Push(t testing.TB, repository string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(r.Host+"/"+repository, name.Insecure, name.StrictValidation)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img, remote.WithContext(t.Context())); err != nil {
		t.Fatalf("push %s: %v", ref, err)
	}
	return ref.String()
}

// Conf writes a registries.conf that lets the engine use the registry without
// TLS, and returns its path, for CONTAINERS_REGISTRIES_CONF.
func (r *Registry) Conf(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "registries.conf")
	text := fmt.Sprintf("unqualified-search-registries = []\n\n[[registry]]\nlocation = %q\ninsecure = true\n", r.Host)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Load puts img into the engine's store as reference, without a registry and
// with its annotations, and removes it when the test ends. binary is the podman
// command.
func Load(t testing.TB, binary, reference string, img v1.Image) {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: img})); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), binary, "pull", "--quiet", "oci:"+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("podman pull: %v\n%s", err, out)
	}
	id := strings.TrimSpace(string(out))
	if out, err := exec.CommandContext(t.Context(), binary, "tag", id, reference).CombinedOutput(); err != nil {
		t.Fatalf("podman tag: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		// t.Context has ended by now.
		out, err := exec.Command(binary, "image", "rm", "--force", reference).CombinedOutput()
		if err != nil {
			t.Errorf("podman image rm: %v\n%s", err, out)
		}
	})
}
