package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"realm.dev/container"
	"realm.dev/integration/podmantest"
)

// TestPodman holds a plan against the real engine and runtime, rootful and
// rootless: the mounts, what the host does to them, and the way back.
func TestPodman(t *testing.T) {
	facts := podmantest.Require(t)
	if facts.Rootless {
		holdPlan(t, facts, nil, "")
		return
	}
	t.Run("plain", func(t *testing.T) { holdPlan(t, facts, nil, "") })
	// As sessions run: private ids, and the workspace's owner mapped to the program's.
	t.Run("idmap", func(t *testing.T) {
		ids := fmt.Sprintf("@%d-%d-1", os.Geteuid(), container.ProgramUID)
		holdPlan(t, facts, []string{"--uidmap", "0:300000:65536", "--gidmap", "0:300000:65536", "--user", "1000:1000"}, ",idmap=uids="+ids+";gids="+ids)
	})
}

func holdPlan(t *testing.T, facts podmantest.Facts, options []string, owned string) {
	dir := worldDir(t)
	gitRepo(t, dir)
	build(t, dir, map[string]string{".env": "SECRET=1", "deep/er/.env": "SECRET=2", ".husky/pre": "x", "sock/host.sock": "@socket", ".envrc": "old", "src/a": "a"})
	p := newPlan(t, dir, worldDir(t), "s-1", gitWrite)
	defer p.Release()
	lost, err := p.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := runContainer(t, facts, p, options, owned)
	if missing, err := p.Verify(c.pid); err != nil || len(missing) > 0 {
		t.Fatalf("not in force: %+v, %v", missing, err)
	}
	c.fails("mv .husky h2", "busy")
	c.fails("mv .git g2", "busy")
	c.fails("mv .git/info .git/i2", "busy")
	c.fails("mv deep d2", "busy")
	c.fails("mkdir .claude/x", "Read-only file system")
	c.fails("echo x > .git/hooks/pre-commit", "Read-only file system")
	c.works("git add src && git commit -q -m inside && git status --short")
	if out := c.works("cat .env deep/er/.env sock/host.sock"); out != "" {
		t.Errorf("hidden files read %q", out)
	}
	if out := git(t, dir, "log", "--oneline"); !strings.Contains(out, "inside") {
		t.Errorf("the host does not see the commit: %s", out)
	}
	git(t, dir, "config", "x.y", "host")
	c.rebind(p, await(t, lost, dir+"/.git/config"))
	c.fails("echo x >> .git/config", "Read-only file system")
	c.works("grep -q host .git/config")
	write(t, dir+"/src/new", "SECRET=2")
	rename(t, dir+"/src/new", dir+"/.env")
	c.rebind(p, await(t, lost, dir+"/.env"))
	if out := c.works("cat .env"); out != "" {
		t.Errorf("the new secret is visible: %q", out)
	}
	git(t, dir, "worktree", "prune") // takes the placeholder away
	c.rebind(p, await(t, lost, dir+"/.git/worktrees"))
	c.fails("mkdir .git/worktrees/x", "Read-only file system")
	if missing, err := p.Verify(c.pid); err != nil || len(missing) > 0 {
		t.Fatalf("not in force at the end: %+v, %v", missing, err)
	}
}

type podmanContainer struct {
	t   *testing.T
	id  string
	dir string
	pid int
}

// runContainer runs a container of the host's own /usr with the plan's binds.
func runContainer(t *testing.T, facts podmantest.Facts, p *Plan, options []string, owned string) *podmanContainer {
	t.Helper()
	root := worldDir(t)
	binds := append([]container.Bind{{Source: "/usr", Destination: "/usr"}, p.Workspace}, p.Binds()...)
	for _, d := range []string{"/proc", "/sys", "/dev", "/tmp", "/etc", "/run", "/var/tmp", "/.realm/cover", "/usr", p.Root} {
		if err := os.MkdirAll(root+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/passwd", "etc/group", "run/.containerenv"} {
		write(t, filepath.Join(root, f), "")
	}
	for _, l := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+l, filepath.Join(root, l)); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{
		"run", "-d", "--network", "none", "--read-only", "--workdir", p.Root, "--log-driver", "none", "--security-opt", "label=disable",
		"-e", "HOME=/tmp", "-e", "GIT_CONFIG_COUNT=1", "-e", "GIT_CONFIG_KEY_0=safe.directory", "-e", "GIT_CONFIG_VALUE_0=*",
	}
	if facts.Rootless {
		args = append(args, "--userns", "keep-id:uid=1000,gid=1000")
	}
	args = append(args, options...)
	for _, b := range binds {
		m := "type=bind,src=" + b.Source + ",dst=" + b.Destination + ",bind-propagation=private"
		if !b.Write {
			m += ",ro"
		}
		if b.Owned {
			m += owned
		}
		args = append(args, "--mount", m)
	}
	args = append(args, "--rootfs", root, "/usr/bin/sleep", "1000")
	out, err := exec.Command(facts.Binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("podman run: %v: %s", err, out)
	}
	lines := strings.Fields(string(out))
	c := &podmanContainer{t: t, id: lines[len(lines)-1], dir: p.Root}
	t.Cleanup(func() {
		if out, err := exec.Command(facts.Binary, "rm", "-f", "-t", "0", c.id).CombinedOutput(); err != nil {
			t.Errorf("podman rm: %v: %s", err, out)
		}
	})
	pid, err := exec.Command(facts.Binary, "inspect", "-f", "{{.State.Pid}}", c.id).Output()
	if err == nil {
		c.pid, err = strconv.Atoi(strings.TrimSpace(string(pid)))
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *podmanContainer) sh(line string) (string, error) {
	out, err := exec.Command("podman", "exec", c.id, "sh", "-c", line).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c *podmanContainer) works(line string) string {
	c.t.Helper()
	out, err := c.sh(line)
	if err != nil {
		c.t.Errorf("%s: %v: %s", line, err, out)
	}
	return out
}

func (c *podmanContainer) fails(line, what string) {
	c.t.Helper()
	out, err := c.sh(line)
	if err == nil || !strings.Contains(out, what) {
		c.t.Errorf("%s: %v, printed %q, want a failure with %q", line, err, out, what)
	}
}

func (c *podmanContainer) rebind(p *Plan, l Lost) {
	c.t.Helper()
	start := time.Now()
	out, err := p.Rebind(c.t.Context(), c.pid, l)
	if err != nil {
		c.t.Fatalf("rebind: %v: %v", err, errorsCause(err))
	}
	c.t.Logf("bound %d again in %v", len(out.Bound), time.Since(start).Round(time.Millisecond))
	if len(out.Bound) != 1 || out.Tampered || out.Doubt {
		c.t.Errorf("rebind: %+v", out)
	}
}
