package images

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"realm.dev/integration/podmantest"
)

func podman(t *testing.T, facts podmantest.Facts, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), facts.Binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("podman %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func TestBusyboxRuns(t *testing.T) {
	facts := podmantest.Require(t)
	const ref = "localhost/realm-images-busybox:run"
	Load(t, facts.Binary, ref, Busybox(t))
	got := podman(t, facts, nil, "run", "--rm", "--network", "none", ref, "sh", "-c", "id -u; ls -d /tmp /home")
	if diff := cmp.Diff("0\n/home\n/tmp", got); diff != "" {
		t.Error(diff)
	}
}

func TestPullFromLoopback(t *testing.T) {
	facts := podmantest.Require(t)
	var requests atomic.Int64
	registry := Serve(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			next.ServeHTTP(w, r)
		})
	})
	img := Busybox(t)
	ref := registry.Push(t, "realm/busybox:pull", img)
	pushed := requests.Load()
	t.Cleanup(func() {
		if out, err := exec.Command(facts.Binary, "image", "rm", "--force", ref).CombinedOutput(); err != nil {
			t.Errorf("podman image rm: %v\n%s", err, out)
		}
	})
	podman(t, facts, []string{"CONTAINERS_REGISTRIES_CONF=" + registry.Conf(t)}, "pull", "--quiet", ref)

	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got := podman(t, facts, nil, "image", "inspect", "--format", "{{.Digest}}", ref); got != digest.String() {
		t.Errorf("digest %s, want %s", got, digest)
	}
	if requests.Load() == pushed {
		t.Error("the pull did not ask the registry")
	}
}

// A hostile image that lost its trick on the way proves nothing about realm.
func TestHostileImagesKeepTheirTricks(t *testing.T) {
	facts := podmantest.Require(t)
	type inspect struct {
		Annotations map[string]string
		Labels      map[string]string
		Config      struct {
			Entrypoint, Cmd, Env         []string
			Volumes, ExposedPorts        map[string]struct{}
			WorkingDir, User, StopSignal string
		}
		Healthcheck *struct{ Test []string }
	}
	kept := map[string]func(inspect) bool{
		"entrypoint":      func(i inspect) bool { return len(i.Config.Entrypoint) == 3 && len(i.Config.Cmd) == 2 },
		"command":         func(i inspect) bool { return len(i.Config.Cmd) == 3 },
		"volume":          func(i inspect) bool { _, ok := i.Config.Volumes["/data"]; return ok },
		"env":             func(i inspect) bool { return strings.Contains(strings.Join(i.Config.Env, "\n"), "LD_PRELOAD=") },
		"workdir-link":    func(i inspect) bool { return i.Config.WorkingDir == "/out" },
		"workdir-missing": func(i inspect) bool { return i.Config.WorkingDir == "/etc/passwd/deep" },
		"user":            func(i inspect) bool { return i.Config.User == "0:0" },
		"user-unknown":    func(i inspect) bool { return i.Config.User == "nobody-of-this-name" },
		"healthcheck":     func(i inspect) bool { return i.Healthcheck != nil },
		"labels":          func(i inspect) bool { return i.Labels["dev.realm.epoch"] == "999" },
		"annotations":     func(i inspect) bool { return i.Annotations["io.podman.annotations.privileged"] == "TRUE" },
		"stop-signal":     func(i inspect) bool { return i.Config.StopSignal == "SIGWINCH" },
		"ports":           func(i inspect) bool { return len(i.Config.ExposedPorts) == 2 },
		"everything": func(i inspect) bool {
			return len(i.Annotations) > 0 && len(i.Labels) > 0 && len(i.Config.Volumes) > 0 && i.Config.WorkingDir == "/out"
		},
	}
	for _, hostile := range HostileImages() {
		t.Run(hostile.Name, func(t *testing.T) {
			ref := "localhost/realm-images-hostile:" + hostile.Name
			Load(t, facts.Binary, ref, hostile.Image(t))
			var got []inspect
			out := podman(t, facts, nil, "image", "inspect", ref)
			if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 {
				t.Fatalf("podman image inspect: %v, %d images", err, len(got))
			}
			if keeps := kept[hostile.Name]; keeps != nil && !keeps(got[0]) {
				t.Errorf("it no longer tries %s: %s", hostile.Tries, out)
			}
		})
	}
}

// What the engine does not show of an image is seen in what the registry serves.
func TestHostileImagesAreServed(t *testing.T) {
	registry := Serve(t)
	for _, hostile := range HostileImages() {
		t.Run(hostile.Name, func(t *testing.T) {
			img := hostile.Image(t)
			ref, err := name.ParseReference(registry.Push(t, "hostile/"+hostile.Name+":1", img), name.Insecure)
			if err != nil {
				t.Fatal(err)
			}
			served, err := remote.Image(ref, remote.WithContext(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			want, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			got, err := served.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Config, got.Config); diff != "" {
				t.Error(diff)
			}
			manifest, err := served.Manifest()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(hostile.annotations, manifest.Annotations); diff != "" {
				t.Error(diff)
			}
		})
	}
}
