package podman

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/containers/podman/v5/libpod/define"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"realm.dev/container"
	"realm.dev/contract"
)

func TestServiceConf(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{
		"first.conf":  "[containers]\nvolumes = [\"/etc:/etc\"]\n[engine]\nnum_locks = 4096\nruntime = \"runc\"\nhooks_dir = [\"/evil\"]\n",
		"second.conf": "[engine]\nruntime = \"crun\"\nhelper_binaries_dir = [\"/opt/podman\", {append=true}]\nenv = [\"EVIL=1\"]\n[engine.runtimes]\ncrun = [\"/opt/crun\"]\n",
	}
	var paths []string
	for _, name := range []string{"first.conf", "absent.conf", "second.conf"} {
		path := filepath.Join(dir, name)
		if text, ok := files[name]; ok {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, path)
	}
	user, err := userEngine(paths)
	if err != nil {
		t.Fatal(err)
	}
	data, err := serviceConf(user, "/ours/hooks")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]map[string]any
	if _, err := toml.Decode(string(data), &got); err != nil {
		t.Fatalf("%v in:\n%s", err, data)
	}
	want := map[string]any{
		"num_locks": int64(4096), "runtime": "crun", "runtimes": map[string]any{"crun": []any{"/opt/crun"}},
		"helper_binaries_dir": []any{"/opt/podman", map[string]any{"append": true}},
		"hooks_dir":           []any{"/ours/hooks"}, "cdi_spec_dirs": []any{"/ours/hooks"}, "env": []any{},
	}
	if diff := cmp.Diff(want, got["engine"]); diff != "" {
		t.Errorf("engine (-want +got):\n%s", diff)
	}
	for _, key := range []string{"volumes", "mounts", "devices", "annotations", "default_sysctls", "default_ulimits", "env", "cgroup_conf"} {
		if v, ok := got["containers"][key].([]any); !ok || len(v) != 0 {
			t.Errorf("%s is %v", key, got["containers"][key])
		}
	}
	for _, key := range []string{"privileged", "env_host", "http_proxy", "init"} {
		if got["containers"][key] != false {
			t.Errorf("%s is %v", key, got["containers"][key])
		}
	}
}

func TestUserEngineThatDoesNotParse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.conf")
	if err := os.WriteFile(path, []byte("[engine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := userEngine([]string{path}); err == nil {
		t.Error("noise is a configuration")
	}
}

func TestConfFiles(t *testing.T) {
	home := t.TempDir()
	dropIns := filepath.Join(home, ".config/containers/containers.conf.d")
	if err := os.MkdirAll(dropIns, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.conf", "a.conf", "c.txt"} {
		if err := os.WriteFile(filepath.Join(dropIns, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"HOME": home}
	getenv := func(name string) string { return env[name] }
	files := confFiles(1000, getenv)
	tail := []string{filepath.Join(home, ".config/containers/containers.conf"), filepath.Join(dropIns, "a.conf"), filepath.Join(dropIns, "b.conf")}
	if len(files) < 6 || !slices.Equal(files[len(files)-3:], tail) || files[0] != "/usr/share/containers/containers.conf" {
		t.Errorf("got %v", files)
	}
	env["CONTAINERS_CONF"], env["CONTAINERS_CONF_OVERRIDE"] = "/one", "/two"
	if files := confFiles(1000, getenv); !slices.Equal(files, []string{"/one", "/two"}) {
		t.Errorf("got %v", files)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]version{
		"5.4.2": {5, 4, 2}, "v5.8.0-dev": {5, 8, 0}, "1.21": {1, 21, 0}, "1.3.6+ds1": {1, 3, 6}, "1.4.0~rc1": {1, 4, 0}, "5.0.0 extra": {5, 0, 0},
	} {
		if got, ok := parseVersion(text); !ok || got != want {
			t.Errorf("%s: got %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "5", "5.x", "five", "1.2.3.4", "-1.2", "5..1", "99999999.1.1"} {
		if got, ok := parseVersion(text); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add("5.4.2")
	f.Add("v5.8.0-dev")
	f.Fuzz(func(t *testing.T, text string) {
		v, ok := parseVersion(text)
		if !ok {
			return
		}
		if again, ok := parseVersion(v.String()); !ok || again != v {
			t.Errorf("%q is %v, and that is %v", text, v, again)
		}
	})
}

func TestKnownHoles(t *testing.T) {
	for _, tt := range []struct {
		program, version string
		want             int
	}{
		{"podman", "5.4.2", 2},
		{"podman", "5.7.1", 1},
		{"podman", "5.8.8", 0},
		{"podman", "6.0.0", 0},
		{"podman", "unknown", 2},
		{"crun", "1.21", 1},
		{"crun", "1.29.9", 1},
		{"crun", "1.30", 0},
		{"runc", "1.1.11", 1},
		{"runc", "1.3.5", 1},
		{"runc", "1.3.6", 0},
		{"runc", "1.4.0", 1},
		{"runc", "1.4.3", 0},
		{"runc", "1.5.0", 0},
		{"kata", "1.0.0", 0},
	} {
		if got := knownHoles(tt.program, tt.version); len(got) != tt.want {
			t.Errorf("%s %s: got %v, want %d", tt.program, tt.version, got, tt.want)
		}
	}
}

func TestInfoOf(t *testing.T) {
	found := &define.Info{
		Host: &define.HostInfo{
			CgroupsVersion: "v2", CgroupControllers: []string{"cpu", "memory", "pids"}, Security: define.SecurityInfo{Rootless: true},
			OCIRuntime: &define.OCIRuntimeInfo{Name: "crun", Path: "/usr/bin/crun", Version: "crun version 1.21\ncommit: x"},
		},
		Store: &define.StoreInfo{GraphRoot: "/g", RunRoot: "/r", GraphStatus: map[string]string{"Supports shifting": "true"}},
	}
	found.Version.Version = "5.4.2"
	info, err := infoOf(found)
	if err != nil {
		t.Fatal(err)
	}
	if info.Runtime != "crun" || info.RuntimeVersion != "1.21" || !info.Rootless || !info.IdmapShifting || len(info.Controllers) != 3 || len(info.KnownHoles) != 3 {
		t.Errorf("got %+v", info)
	}
	found.Host.CgroupsVersion = "v1"
	if info, err = infoOf(found); err != nil || len(info.Controllers) != 0 {
		t.Errorf("rootless on cgroup v1: %+v, %v", info, err)
	}
	found.Host.ServiceIsRemote = true
	if _, err := infoOf(found); contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Errorf("a remote engine: %v", err)
	}
	if _, err := infoOf(&define.Info{}); contract.CodeOf(err) != contract.PodmanUnavailable {
		t.Errorf("an empty answer: %v", err)
	}
}

// TestFactsAreRemembered until the engine or its runtime changes.
func TestFactsAreRemembered(t *testing.T) {
	dir := t.TempDir()
	runtime := filepath.Join(dir, "crun")
	if err := os.WriteFile(runtime, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	engine := func(v version) *Engine {
		return newEngine(&connection{socket: "/none", version: v}, dir, slog.New(slog.DiscardHandler))
	}
	info := container.Info{Version: "5.4.2", Runtime: "crun", RuntimePath: runtime}
	e := engine(version{5, 4, 2})
	if _, ok := e.recall(); ok {
		t.Error("there is a memory before the first answer")
	}
	e.remember(info)
	if got, ok := e.recall(); !ok || !cmp.Equal(got, info) {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := engine(version{5, 8, 8}).recall(); ok {
		t.Error("another version has the memory")
	}
	if err := os.WriteFile(runtime, []byte("new"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, ok := e.recall(); ok {
		t.Error("another runtime has the memory")
	}
	if err := os.WriteFile(e.memoryFile(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := e.recall(); ok {
		t.Error("a torn memory is one")
	}
}

func TestWellFormed(t *testing.T) {
	got := wellFormed([]string{"PATH=/bin", "EMPTY=", "CONTAINER_HOST", "HOST_*", "*=x", "=x", "", "A B=c", "NUL=a\x00b", "URL=a=b"})
	if want := []string{"PATH=/bin", "EMPTY=", "URL=a=b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogrusGoesToSlog(t *testing.T) {
	var out bytes.Buffer
	redirectLogrus(slog.New(slog.NewTextHandler(&out, nil)))
	defer redirectLogrus(slog.New(slog.DiscardHandler))
	logrus.Warn("a warning of the library")
	if !strings.Contains(out.String(), "a warning of the library") || !strings.Contains(out.String(), "level=WARN") {
		t.Errorf("got %q", out.String())
	}
}

func TestFailKeepsItsCause(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	boom := errors.New("boom")
	cancel(boom)
	k := &call{caller: ctx, transport: errors.New("closed")}
	if err := k.fail("x", errors.New("status")); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if err := k.fail("x", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
