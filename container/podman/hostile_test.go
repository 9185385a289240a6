package podman

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"realm.dev/contract"
	"realm.dev/integration/podmantest"
)

// hostile are settings of a containers.conf that reach into containers. %s is a
// directory of the test's.
var hostile = map[string]struct {
	conf    string
	refused bool // by a service that reads them; else the spec overrules them
}{
	"volumes":      {"[containers]\nvolumes = [\"/etc:/opt\"]\n", true},
	"mounts":       {"[containers]\nmounts = [\"type=bind,source=/etc,target=/opt\"]\n", false}, // only Podman's command line reads it
	"devices":      {"[containers]\ndevices = [\"/dev/full:/dev/evil\"]\n", true},
	"annotations":  {"[containers]\nannotations = [\"run.oci.keep_original_groups=1\"]\n", true},
	"sysctls":      {"[containers]\ndefault_sysctls = [\"net.ipv4.ip_forward=1\"]\n", true},
	"ulimits":      {"[containers]\ndefault_ulimits = [\"stack=1048576:1048576\"]\n", true},
	"hooks":        {"[engine]\nhooks_dir = [\"%s/hooks\"]\n", true},
	"privileged":   {"[containers]\nprivileged = true\n", false},
	"capabilities": {"[containers]\ndefault_capabilities = [\"CHOWN\", \"SYS_ADMIN\", \"NET_ADMIN\"]\n", false},
	"environment":  {"[containers]\nenv = [\"EVIL=1\"]\nenv_host = true\nhttp_proxy = true\n", false},
	"namespaces":   {"[containers]\nnetns = \"host\"\npidns = \"host\"\nipcns = \"host\"\nutsns = \"host\"\nuserns = \"host\"\ncgroupns = \"host\"\n", false},
	"seccomp":      {"[containers]\nseccomp_profile = \"%s/none.json\"\n", false},
	"init":         {"[containers]\ninit = true\numask = \"0000\"\nread_only = false\nlog_driver = \"k8s-file\"\n", false},
	"no hosts":     {"[containers]\nbase_hosts_file = \"/etc/hosts\"\nno_hosts = false\n", false},
	"timezone":     {"[containers]\ntz = \"local\"\n", true}, // a file of the host's, that Podman cannot be told to leave out
}

// writeHostile makes what the settings name: a hook that leaves a mark, and a
// filter that filters nothing.
func writeHostile(t *testing.T, conf string) (file, mark string) {
	t.Helper()
	dir := scratch(t)
	mark = filepath.Join(dir, "hook-ran")
	if err := os.Mkdir(filepath.Join(dir, "hooks"), 0o755); err != nil {
		t.Fatal(err)
	}
	hook := `{"version":"1.0.0","hook":{"path":"/usr/bin/touch","args":["touch","` + mark + `"]},"when":{"always":true},"stages":["createRuntime"]}`
	for name, text := range map[string]string{
		"hooks/evil.json": hook, "none.json": "{}", "containers.conf": strings.ReplaceAll(conf, "%s", dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "containers.conf"), mark
}

// TestForeignServiceWithHostileConf joins a service that reads such settings, as
// a podman.socket of the user's does.
func TestForeignServiceWithHostileConf(t *testing.T) {
	podmantest.Require(t)
	for name, tt := range hostile {
		t.Run(name, func(t *testing.T) {
			conf, _ := writeHostile(t, tt.conf)
			e, err := Open(t.Context(), Options{URL: podmantest.Service(t, "CONTAINERS_CONF="+conf), RuntimeDir: scratch(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { e.Close() })
			b := specOf(t, e)
			t.Cleanup(b.remove)
			err = b.upToStart()
			if tt.refused {
				// Some the runtime cannot even set up in a root that is ours.
				if code := contract.CodeOf(err); code != contract.IsolationUnproven && (name != "timezone" || code != contract.PodmanUnavailable) {
					t.Fatalf("got %v, want ISOLATION_UNPROVEN", err)
				}
				return
			}
			b.must(err)
			b.clean()
		})
	}
}

// TestOwnServiceWithHostileConf starts a service of our own in the environment
// of somebody with all of these settings.
func TestOwnServiceWithHostileConf(t *testing.T) {
	podmantest.Require(t)
	var containers, engine strings.Builder
	for _, tt := range hostile {
		section, lines, _ := strings.Cut(tt.conf, "\n")
		out := &containers
		if section == "[engine]" {
			out = &engine
		}
		for line := range strings.Lines(lines) {
			key, _, _ := strings.Cut(line, " ")
			if !strings.Contains(out.String(), "\n"+key+" ") {
				fmt.Fprint(out, "\n"+line)
			}
		}
	}
	conf, mark := writeHostile(t, "[containers]\n"+containers.String()+"\n[engine]\n"+engine.String())
	for _, variable := range []string{"CONTAINERS_CONF", "CONTAINERS_CONF_OVERRIDE"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, conf)
			t.Setenv("PODMAN_USERNS", "host")
			t.Setenv("EVIL", "1")
			e := open(t)
			b := specOf(t, e)
			t.Cleanup(b.remove)
			b.must(b.upToStart())
			b.clean()
			if _, err := os.Lstat(mark); err == nil {
				t.Error("the hook ran")
			}
		})
	}
}

// upToStart does what realm does before anything of a session runs.
func (b *box) upToStart() error {
	ctx := b.t.Context()
	id, err := b.e.Create(ctx, b.Spec)
	b.id = id
	for _, step := range []func() error{
		func() error { return b.e.Verify(ctx, id, b.Spec) },
		func() error { return b.e.Init(ctx, id) },
		func() error { return b.e.Verify(ctx, id, b.Spec) },
		func() error { return b.e.Start(ctx, id) },
	} {
		if err == nil {
			err = step()
		}
	}
	return err
}

// clean looks from inside for what hostile settings bring in.
func (b *box) clean() {
	b.t.Helper()
	b.guest = b.listen()
	if _, err := b.e.ReadBack(b.t.Context(), b.id, b.Spec); err != nil {
		b.t.Errorf("read back: %v: %v", err, contract.AsError(err).Cause)
	}
	mounts := b.guest.run("cat", "/proc/self/mountinfo")
	if mounts.Code != 0 || strings.Contains(mounts.Output, " /opt ") {
		b.t.Errorf("mounts: %+v", mounts)
	}
	for _, path := range []string{"/opt/passwd", "/dev/evil"} {
		if resp := b.guest.run("cat", path); resp.Code == 0 {
			b.t.Errorf("%s is there: %s", path, resp.Output)
		}
	}
	if env := b.guest.run("env"); env.Code != 0 || strings.Contains(env.Output, "EVIL") {
		b.t.Errorf("environment of PID 1: %+v", env)
	}
}
