package realm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/integration/images"
)

// No signal that a program sends to PID 1 ends or hangs it: a Go PID 1 of the
// programs' own uid died or hung from 26 of 130 (container-experiments, PID 1).
func TestSignalsToInit(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	out(t, s, "for round in 1 2; do for s in $(seq 1 64); do kill -$s 1 2>/dev/null; done; done; true")
	if got := out(t, s, "echo alive"); got != "alive" {
		t.Errorf("printed %q", got)
	}
}

// A call that is killed takes its daemons with it, whatever they did to get away,
// and leaves its neighbour's alone (container-experiments: kill methods).
func TestKillTakesTheWholeTreeAndNothingElse(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	out(t, s, "setsid sleep 77777 >/dev/null 2>&1 &")
	for name, script := range map[string]string{
		"daemon":      "setsid sleep 4242 >/dev/null 2>&1 & sleep 4242",
		"cleared-env": "(env -i setsid sh -c 'sleep 4242 & exit' &) ; sleep 4242",
		"re-forking":  "f() { ( sleep 0.01; f ) & }; f; env -i setsid sh -c 'while :; do sh -c \"exec sleep 4242\" & sleep 0.05; done' & sleep 4242",
		"stopped":     "sh -c 'kill -STOP $$; sleep 4242' & trap '' TERM; sleep 4242",
	} {
		res := s.Call(t.Context(), "kill-"+name, &contract.ToolCall{Exec: &contract.ExecCall{Shell: true, Script: script, TimeoutMs: 400}}, nil)
		if contract.CodeOf(res.Error) != contract.ExecTimeout {
			t.Errorf("%s: %v", name, res.Error)
		}
		if got := out(t, s, "ps -eo args | grep -c '[s]leep 4242' || true"); got != "0" {
			t.Errorf("%s: %s processes survived", name, got)
		}
	}
	if got := out(t, s, "ps -eo args | grep -c '[s]leep 77777'"); got != "1" {
		t.Errorf("the neighbour's daemon: %s left", got)
	}
	if bg := s.Detail().Background; len(bg) != 1 || bg[0].Processes != 1 {
		t.Errorf("background: %+v", bg)
	}
}

func TestForkBombAndMemoryHogAreContained(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable+"limits: {pids: 64, memoryBytes: 268435456}\n", workspaceDir(t, nil))
	res := s.Call(t.Context(), "bomb", &contract.ToolCall{Exec: &contract.ExecCall{
		Argv: []string{"bash", "-c", "exec 2>/dev/null; bomb() { bomb | bomb & }; bomb; sleep 100"}, TimeoutMs: 2000,
	}}, nil)
	if res.Error == nil && res.Exec.ExitCode == nil {
		t.Errorf("bomb: %+v", res)
	}
	waitFor(t, func() bool { r := sh(t, s, "true"); return r.Error == nil && *r.Exec.ExitCode == 0 })
	if r.facts.Rootless && r.facts.CgroupVersion == "v1" {
		t.Skip("rootless Podman has no memory limit on cgroup v1")
	}
	res = s.Call(t.Context(), "hog", &contract.ToolCall{Exec: &contract.ExecCall{
		Argv: []string{"python3", "-c", "x = bytearray(1 << 30)"},
	}}, nil)
	if res.Exec == nil || res.Exec.Outcome != contract.OOM || res.Exec.ExitCode != nil {
		t.Errorf("hog: %v %+v", res.Error, res.Exec)
	}
	if got := out(t, s, "echo alive"); got != "alive" {
		t.Errorf("printed %q", got)
	}
}

// Two sessions see nothing of each other (CTR-14).
func TestSessionsAreStrangers(t *testing.T) {
	r := newRig(t)
	a := r.session(t, writable, workspaceDir(t, map[string]string{"a": ""}))
	b := r.session(t, writable, workspaceDir(t, map[string]string{"b": ""}))
	out(t, a, "setsid sleep 5151 >/dev/null 2>&1 & echo secret > /tmp/mine; echo secret > $HOME/mine; echo secret > /dev/shm/mine")
	if got := out(t, b, "ps -eo args | grep -c '[s]leep 5151' || true; ls /tmp/mine $HOME/mine /dev/shm/mine 2>/dev/null | wc -l"); got != "0\n0" {
		t.Errorf("b sees of a: %q", got)
	}
	refused(t, b, "ls "+a.Record().WorkspaceRoot)
	if ua, ub := a.box.spec.User.Base, b.box.spec.User.Base; !r.facts.Rootless && ua == ub {
		t.Errorf("both sessions have the host ids from %d on", ua)
	}
}

// The environment, descriptors and files inside are the declared ones (CTR-02,
// CTR-10, CTR-11).
func TestNothingOfTheCallerGetsIn(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "/tmp/agent.sock")
	t.Setenv("HTTPS_PROXY", "http://user:secret-value@localhost:1")
	t.Setenv("REALM_TOKEN", "secret-value")
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	if got := out(t, s, "env | cut -d= -f1 | sort | tr '\\n' ' '"); got != "HOME LANG LOGNAME PATH PWD TMPDIR USER" {
		t.Errorf("environment: %q", got)
	}
	if got := out(t, s, "ls /proc/self/fd | wc -l"); got != "4" { // and the one ls opens
		t.Errorf("%s descriptors", got)
	}
	if got := out(t, s, "ls -A /root /home | tr '\\n' ' '"); !strings.Contains(got, "agent") || strings.Contains(got, ".ssh") {
		t.Errorf("homes: %q", got)
	}
	refused(t, s, "cat /etc/shadow", "ls /var/lib/containers", "ls /run/podman", "touch /usr/x", "touch /x", "cat /proc/1/environ",
		"echo core > /proc/sys/kernel/core_pattern", "echo b > /proc/sysrq-trigger", "cat /proc/kcore | head -c 1 | grep -q .")
}

// What a hostile image says about itself is not taken (CTR-15): its ENTRYPOINT,
// USER, WORKDIR, VOLUME, HEALTHCHECK and labels; its environment reaches
// programs, never PID 1.
func TestHostileImages(t *testing.T) {
	r := newRig(t)
	// An environment that Podman cannot parse, and links where mounts must go.
	mayRefuse := map[string]bool{"env": true, "links": true, "everything": true}
	for _, h := range images.HostileImages() {
		t.Run(h.Name, func(t *testing.T) {
			ref := fmt.Sprintf("localhost/realm-test/%s:%s", strings.ToLower(h.Name), randomID(6))
			images.Load(t, r.facts.Binary, ref, h.Image(t))
			s, err := r.Create(t.Context(), r.request(t, writable+"image: "+ref+"\n", workspaceDir(t, nil)))
			must(t, err)
			if err := s.WaitReady(t.Context()); err != nil {
				<-s.Done()
				assertNothingLeft(t, r, s.ID())
				if !mayRefuse[h.Name] {
					t.Errorf("refused: %v: %v", err, errors.Unwrap(err))
				}
				return
			}
			if got := out(t, s, "id -u; cat /proc/1/cmdline | tr '\\0' ' '; pwd"); !strings.HasPrefix(got, "1000\n"+container.InitPath+" ") ||
				!strings.HasSuffix(got, s.Record().WorkspaceRoot) {
				t.Errorf("inside: %q", got)
			}
			for _, p := range s.Detail().Probes {
				if !p.OK {
					t.Errorf("probe %s: %s", p.Name, p.Detail)
				}
			}
			if _, err := s.Stop(t.Context(), 0); err != nil {
				t.Error(err)
			}
			assertNothingLeft(t, r, s.ID())
		})
	}
}

func TestTerminalInside(t *testing.T) {
	r := newRig(t)
	s := r.session(t, writable, workspaceDir(t, nil))
	res := s.Call(t.Context(), "tty", &contract.ToolCall{Exec: &contract.ExecCall{
		Argv: []string{"sh", "-c", "tty; test -t 0 && test -t 1 && test -t 2 && echo all; echo $TERM"}, TTY: true,
	}}, nil)
	if res.Error != nil || !strings.Contains(res.Exec.Stdout.Head, "/dev/pts/") || !strings.Contains(res.Exec.Stdout.Head, "all") {
		t.Errorf("tty: %v %+v", res.Error, res.Exec)
	}
	if got := out(t, s, "echo to-stderr > /dev/stderr && echo ok"); got != "ok" {
		t.Errorf("/dev/stderr: %q", got)
	}
}

// A killed realm leaves nothing running for ever: PID 1 ends the session by
// itself when nobody owns it for the grace.
func TestAnAbandonedSessionEndsByItself(t *testing.T) {
	r := newRig(t)
	dirs := testDirs(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "REALM_TEST_CRASH_AT=exec", "REALM_TEST_GRACE=1s", "REALM_TEST_STATE="+dirs.State, "REALM_TEST_RUNTIME="+dirs.Runtime,
		"REALM_TEST_WORKSPACE="+workspaceDir(t, nil), "REALM_TEST_POLICY="+writable)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("did not crash: %v", err)
	}
	id, err := dirs.realmID()
	must(t, err)
	waitFor(t, func() bool {
		list, err := r.engine.List(t.Context(), map[string]string{container.LabelRealm: id})
		must(t, err)
		return len(list) == 1 && (list[0].State == container.Exited || list[0].State == "stopped")
	})
	m, err := openRealm(t.Context(), dirs)
	must(t, err)
	must(t, m.Close(t.Context()))
	assertNothingLeft(t, r, "crash")
}

// user: root gives programs uid 0 of the namespace and a writable root file
// system, as package managers need, and no way to make a setuid file; the detail
// says what is weaker.
func TestRootPrograms(t *testing.T) {
	r := newRig(t)
	ref := "localhost/realm-test/root:" + randomID(6)
	images.Load(t, r.facts.Binary, ref, images.Busybox(t))
	dir := workspaceDir(t, nil)
	s := r.session(t, writable+"user: root\nimage: "+ref+"\n", dir)
	if got := out(t, s, "id -u; mkdir -p /opt/x && touch /opt/x/y && chown 33:33 /opt/x/y && ls -ln /opt/x | tail -1 | awk '{print $3}'; touch made"); got != "0\n33" {
		t.Errorf("inside: %q", got)
	}
	fi, err := os.Stat(dir + "/made")
	must(t, err)
	if uid, _ := ownerOf(fi); uid != os.Getuid() {
		t.Errorf("made by root inside belongs to %d", uid)
	}
	refused(t, s, "chmod 4755 made", "cp /bin/busybox made && chmod u+s made", "mount -t tmpfs x /opt", "unshare -U true")
	if fi, _ := os.Stat(dir + "/made"); fi.Mode()&os.ModeSetuid != 0 {
		t.Error("a setuid file in the workspace")
	}
	if d := s.Detail(); len(d.Degraded) == 0 {
		t.Error("the detail does not say what is weaker")
	} else {
		t.Log(d.Degraded)
	}
}
