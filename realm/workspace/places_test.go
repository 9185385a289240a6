package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// outside is a directory that is not below /tmp, where a session has its own.
func outside(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/opt", "realm-test-")
	if err != nil {
		t.Skipf("needs a directory outside /tmp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestPlacesRefused(t *testing.T) {
	base := outside(t)
	build(t, base, map[string]string{
		"tool/bin/x": "x", "home/.ssh/id": "k", "home/src/a": "a", "state/x": "", "file": "x", "conf/gh/hosts.yml": "x", "sockdir/a.sock": "@socket",
		"nested/.aws/credentials": "k", "ws/in/a": "a", "tossh": "@symlink:./home/.ssh", "toetc": "@symlink:/etc", "totool": "@symlink:./tool",
	})
	rename(t, base+"/conf", base+"/home/.config")
	tests := map[string]struct{ path, rule string }{
		"ssh":          {base + "/home/.ssh", "credentials"},
		"link-ssh":     {base + "/tossh", "credentials"},
		"link-etc":     {base + "/toetc", ""},
		"etc":          {"/etc", ""},
		"run":          {"/run/user", ""},
		"home":         {base + "/home", ""},
		"config":       {base + "/home/.config", "credential"},
		"nested-aws":   {base + "/nested", "credential"},
		"socket":       {base + "/sockdir", "socket"},
		"state":        {base + "/state", "realm"},
		"above-state":  {base, ""},
		"workspace":    {base + "/ws", "overlaps"},
		"in-workspace": {base + "/ws/in", "overlaps"},
		"file":         {base + "/file", "not a directory"},
		"missing":      {base + "/none", "does not exist"},
		"storage":      {"/var/lib/containers", ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			doc := fmt.Sprintf(`{"mounts":[{"path":%q},{"path":%q}]}`, base+"/tool", c.path)
			pol, err := compiled(doc)
			if err != nil {
				if !strings.Contains(err.Error(), "/mounts/1") {
					t.Errorf("%v names another entry", err)
				}
				return // refused by its text alone
			}
			tree, err := Open(base+"/ws", Options{StateDir: base + "/state", Home: base + "/home", Policy: pol})
			if err != nil {
				t.Fatal(err)
			}
			defer tree.Close()
			_, err = tree.Plan(t.Context(), "s-1")
			wantCode(t, err, contract.SchemaInvalid)
			if !strings.Contains(err.Error(), "/mounts/1/path: ") || !strings.Contains(err.Error(), c.rule) || strings.Contains(err.Error(), base) {
				t.Errorf("%v, want /mounts/1/path and %q", err, c.rule)
			}
		})
	}
}

func TestPlacesMounted(t *testing.T) {
	base := outside(t)
	build(t, base, map[string]string{"tool/bin/x": "x", "cache/a": "a", "totool": "@symlink:./tool", "ws/a": "a"})
	if os.Geteuid() == 0 {
		chownAll(t, base+"/cache", 4242)
	}
	doc := fmt.Sprintf(`{"home":"claude","mounts":[{"path":%q},{"path":%q,"write":true}]}`, base+"/totool", base+"/cache")
	state := tempDir(t)
	p := newPlan(t, base+"/ws", state, "s-1", doc)
	defer p.Release()
	var st unix.Stat_t
	if err := unix.Stat(base+"/cache", &st); err != nil {
		t.Fatal(err)
	}
	want := map[string]Mount{}
	for _, m := range p.Mounts {
		want[m.Destination] = m
	}
	if m := want[base+"/totool"]; m.Source != base+"/tool" || m.Write || !m.Exec || m.Role != roleMount || m.Rule != "/mounts/0" || !m.Owned {
		t.Errorf("tool: %+v", m)
	}
	if m := want[base+"/cache"]; !m.Write || m.Owned != (int(st.Uid) == os.Geteuid()) {
		t.Errorf("cache: %+v", m)
	}
	home := want[DefaultHome]
	if home.Source != filepath.Join(state, "homes", "claude") || !home.Write || !home.Owned || home.Role != roleHome {
		t.Errorf("home: %+v", home)
	}
	write(t, home.Source+"/.token", "kept")
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	again := newPlan(t, base+"/ws", state, "s-2", doc)
	defer again.Release()
	if _, err := os.Stat(home.Source + "/.token"); err != nil {
		t.Errorf("the named home lost its content: %v", err)
	}
}

// TestHomeOfAnotherOwner: a named home is not given from one owner to another.
func TestHomeOfAnotherOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: another owner")
	}
	root, state := tempDir(t), tempDir(t)
	doc := `{"home":"claude"}`
	p := newPlan(t, root, state, "s-1", doc)
	defer p.Release()
	write(t, state+"/homes/claude/.token", "root's")
	chownAll(t, root, 4242)
	tree, err := Open(root, Options{StateDir: state, Policy: compile(t, doc)})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	_, err = tree.Plan(t.Context(), "s-2")
	wantCode(t, err, contract.SchemaInvalid)
	if !strings.Contains(err.Error(), "/home") {
		t.Errorf("%v does not name the entry", err)
	}
}
