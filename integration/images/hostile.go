package images

import (
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Witness is what a hostile image tries to make on its own: no session may
// ever have a file of this name.
const Witness = "/tmp/realm-image-ran"

// A Hostile image tries to get something by its metadata or its files that
// nobody asked for.
type Hostile struct {
	Name        string
	Tries       string // what, for the failure message
	format      *format
	config      func(*v1.Config)
	annotations map[string]string
	entries     []entry
}

// HostileImages returns one image per trick, and the last with all of them.
func HostileImages() []Hostile {
	plant := []string{"/bin/sh", "-c", "echo ran >" + Witness}
	tricks := []Hostile{
		{
			Name: "entrypoint", Tries: "to be PID 1",
			config: func(c *v1.Config) { c.Entrypoint, c.Cmd = plant, []string{"and", "arguments"} },
		},
		{
			Name: "command", Tries: "to run its own command",
			config: func(c *v1.Config) { c.Cmd = plant },
		},
		{
			Name: "volume", Tries: "to get writable anonymous volumes that stay behind",
			config: func(c *v1.Config) {
				c.Volumes = map[string]struct{}{"/data": {}, "/bin": {}, "/home": {}, "/run": {}}
			},
		},
		{
			Name: "env", Tries: "to steer programs and to read the engine's environment",
			config: func(c *v1.Config) { c.Env = append(c.Env, hostileEnv()...) },
		},
		{
			Name: "workdir-link", Tries: "to begin outside of the container through a link",
			config: func(c *v1.Config) { c.WorkingDir = "/out" },
			entries: []entry{
				{name: "out", link: "/proc/self/fd/7"},
			},
		},
		{
			Name: "workdir-missing", Tries: "to have a directory made on a read-only root",
			config: func(c *v1.Config) { c.WorkingDir = "/etc/passwd/deep" },
		},
		{
			Name: "user", Tries: "to run as a user of its choice",
			config: func(c *v1.Config) { c.User = "0:0" },
		},
		{
			Name: "user-unknown", Tries: "to make the engine look up a user who is not there",
			config: func(c *v1.Config) { c.User = "nobody-of-this-name" },
		},
		{
			Name: "healthcheck", Tries: "to have a program run every second",
			format: docker,
			config: func(c *v1.Config) {
				c.Healthcheck = &v1.HealthConfig{
					Test: append([]string{"CMD"}, plant...), Interval: time.Second, Timeout: time.Second, Retries: 1,
				}
			},
		},
		{
			Name: "labels", Tries: "to pass for a session of realm, and to set engine options",
			config: func(c *v1.Config) { c.Labels = hostileLabels() },
		},
		{
			Name: "annotations", Tries: "to switch off what the runtime enforces",
			annotations: hostileAnnotations(),
		},
		{
			Name: "stop-signal", Tries: "to make stop take for ever",
			config: func(c *v1.Config) { c.StopSignal = "SIGWINCH" },
		},
		{
			Name: "ports", Tries: "to publish ports",
			config: func(c *v1.Config) {
				c.ExposedPorts = map[string]struct{}{"22/tcp": {}, "53/udp": {}}
			},
		},
		{
			Name: "links", Tries: "to move the places of mounts elsewhere",
			entries: []entry{
				{name: "home", link: "/etc"},
				{name: "run", link: "../../../../../../etc"},
				{name: "var/tmp", link: "/bin"},
			},
		},
		{
			Name: "setuid", Tries: "to hand out root by a file",
			entries: []entry{{name: "bin/su", mode: 0o6755, data: []byte("#!/bin/sh\nid\n")}},
		},
		{
			Name: "passwd", Tries: "to make every user root",
			entries: []entry{
				{name: "etc/passwd", mode: 0o666, data: []byte("root:x:0:0::/:/bin/sh\nworker:x:0:0::/:/bin/sh\nnobody:x:1000:0::/:/bin/sh\n")},
				{name: "etc/group", mode: 0o666, data: []byte("root:x:0:nobody,worker\n")},
			},
		},
	}
	tricks = append(tricks, everything(tricks))
	for i := range tricks {
		if tricks[i].format == nil {
			tricks[i].format = oci
		}
	}
	return tricks
}

// everything joins the tricks that do not exclude each other.
func everything(tricks []Hostile) Hostile {
	all := Hostile{Name: "everything", Tries: "all of it at once", annotations: hostileAnnotations()}
	for _, h := range tricks {
		switch h.Name {
		case "workdir-missing", "user-unknown", "links":
			continue
		}
		all.entries = append(all.entries, h.entries...)
	}
	all.config = func(c *v1.Config) {
		for _, h := range tricks {
			if h.config != nil && h.Name != "workdir-missing" && h.Name != "user-unknown" {
				h.config(c)
			}
		}
	}
	return all
}

// Image builds h upon busybox.
func (h Hostile) Image(t testing.TB) v1.Image {
	t.Helper()
	img := h.format.busybox(t)
	var err error
	if len(h.entries) > 0 {
		if img, err = h.format.append(img, h.entries); err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
	}
	if h.config != nil {
		if img, err = configure(img, func(c *v1.ConfigFile) { h.config(&c.Config) }); err != nil {
			t.Fatalf("%s: %v", h.Name, err)
		}
	}
	if h.annotations == nil {
		return img
	}
	annotated, ok := mutate.Annotations(img, h.annotations).(v1.Image)
	if !ok {
		t.Fatal("annotations made something else of an image")
	}
	return annotated
}

func hostileEnv() []string {
	return []string{
		"LD_PRELOAD=/evil.so",
		"PATH=/evil:/bin",
		"HOME=/evil",
		"BASH_ENV=/evil.sh",
		"ENV=/evil.sh",
		"GODEBUG=gctrace=1",
		"http_proxy=http://127.0.0.1:1",
		"AWS_SECRET_ACCESS_KEY=image-secret",
		"REALM_SESSION=of-the-image",
		// Without a value: an engine that fills it in gives away its own.
		"CONTAINER_HOST",
		"HOST_SECRET*",
		"*",
		"=no-name",
		"",
	}
}

func hostileLabels() map[string]string {
	return map[string]string{
		"dev.realm.realm-id":                  "of-the-image",
		"dev.realm.session-id":                "of-the-image",
		"dev.realm.epoch":                     "999",
		"io.containers.autoupdate":            "registry",
		"io.containers.capabilities":          "SYS_ADMIN",
		"io.podman.annotations.privileged":    "TRUE",
		"io.containers.seccomp.profile":       `{"defaultAction":"SCMP_ACT_ALLOW"}`,
		"io.podman.annotations.seccomp":       "unconfined",
		"io.containers.disable-healthcheck":   "false",
		"org.systemd.property.DeviceAllow":    "['/dev/kmsg rw']",
		"run.oci.keep_original_groups":        "1",
		"io.podman.annotations.cid-file":      "/etc/passwd",
		"io.kubernetes.cri-o.userns-mode":     "host",
		"com.docker.compose.container-number": "1",
	}
}

func hostileAnnotations() map[string]string {
	return map[string]string{
		"io.podman.annotations.privileged":       "TRUE",
		"io.podman.annotations.seccomp":          "unconfined",
		"io.podman.annotations.apparmor":         "unconfined",
		"io.podman.annotations.label":            "disable",
		"io.podman.annotations.init":             "TRUE",
		"io.podman.annotations.volumes-from":     "other",
		"io.podman.annotations.pids-limit":       "-1",
		"io.podman.annotations.ulimit":           "nofile=1000000:1000000",
		"io.podman.annotations.userns":           "host",
		"io.kubernetes.cri-o.Privileged":         "true",
		"run.oci.keep_original_groups":           "1",
		"run.oci.handler":                        "krun",
		"run.oci.seccomp_fail_unknown_syscall":   "0",
		"run.oci.seccomp.receiver":               "/run/evil.sock",
		"run.oci.mount_context_type":             "rootcontext",
		"run.oci.hooks.stdout":                   Witness,
		"run.oci.hooks.stderr":                   Witness,
		"module.wasm.image/variant":              "compat",
		"org.systemd.property.TimeoutStopUSec":   "uint64 0",
		"org.opencontainers.image.stopSignal":    "SIGWINCH",
		"org.opencontainers.image.exposedPorts":  "22/tcp",
		"io.container.manager":                   "other",
		"com.github.containers.toolbox":          "true",
		"io.podman.annotations.autoremove":       "TRUE",
		"io.podman.annotations.publish-all":      "TRUE",
		"io.podman.annotations.infra.name":       "other",
		"io.podman.annotations.kube.health.exit": "true",
	}
}
