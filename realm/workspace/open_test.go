package workspace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

func TestOpenRefuses(t *testing.T) {
	base := tempDir(t)
	state, home := filepath.Join(base, "home", "state"), filepath.Join(base, "home")
	build(t, base, map[string]string{
		"file": "x", "home/state/x/y": "", "ok/a": "", "store/overlay/x": "", "run": "@symlink:/run", "w\nx/a": "", "loop": "@symlink:./loop",
		"etc": "@symlink:/etc", "back": "@symlink:./home", "bad\xff/a": "",
	})
	tests := map[string]struct{ dir, phrase string }{
		"root":           {"/", "system"},
		"etc":            {"/etc", "system"},
		"usr":            {"/usr", "system"},
		"var":            {"/var", "system"},
		"home":           {"/home", "system"},
		"root-home":      {"/root", "system"},
		"tmp":            {"/tmp", "system"},
		"proc":           {"/proc/self", "kernel"},
		"sys":            {"/sys", "kernel"},
		"dev":            {"/dev/shm", "kernel"},
		"run":            {"/run", "kernel"},
		"var-run":        {"/var/run", "kernel"},
		"dots":           {"/root/..", ".."},
		"relative":       {"repo", "absolute"},
		"empty":          {"", "empty"},
		"nul":            {base + "/ok\x00x", "control"},
		"newline":        {base + "/w\nx", "control"},
		"not-utf8":       {base + "/bad\xff", "UTF-8"},
		"missing":        {base + "/none", "exist"},
		"file":           {base + "/file", "directory"},
		"own-home":       {home, "home"},
		"link-to-home":   {base + "/back", "home"},
		"state":          {state, "realm"},
		"in-state":       {state + "/x", "realm"},
		"contains-state": {base, "realm"},
		"storage":        {base + "/store/overlay", "realm"},
		"link-to-run":    {base + "/run", "kernel"},
		"link-to-etc":    {base + "/etc", "system"},
		"loop":           {base + "/loop", "resolved"},
	}
	pol := compile(t, writable)
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			tree, err := Open(c.dir, Options{StateDir: state, Home: home, Forbidden: []string{base + "/store"}, Policy: pol})
			if err == nil {
				tree.Close()
			}
			wantCode(t, err, contract.SchemaInvalid)
			if !strings.Contains(err.Error(), c.phrase) || strings.Contains(err.Error(), base) {
				t.Errorf("%v, want a phrase with %q and no name of the input", err, c.phrase)
			}
		})
	}
}

// TestOpenTakesOddNames: the engine gets mounts as JSON, so nothing parses these.
func TestOpenTakesOddNames(t *testing.T) {
	base := tempDir(t)
	for _, name := range []string{"w:/host:rw", "w,destination=/,ro=false", "w w", "-v", "ü", `a\b`, "$HOME", "%s", "w'\""} {
		dir := filepath.Join(base, name)
		write(t, filepath.Join(dir, "a"), "a")
		tree := openTree(t, dir, writable)
		if tree.Root() != dir {
			t.Errorf("%q opened as %q", dir, tree.Root())
		}
		p, err := tree.Plan(t.Context(), "s-1")
		if err != nil {
			t.Fatal(err)
		}
		if p.Workspace.Source != dir || p.Workspace.Destination != dir {
			t.Errorf("%q planned as %+v", dir, p.Workspace)
		}
		if err := p.Release(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenFollowsLinksOnce(t *testing.T) {
	base := tempDir(t)
	build(t, base, map[string]string{"real/a": "first", "other/a": "second", "link": "@symlink:./real"})
	tree := openTree(t, filepath.Join(base, "link"), writable)
	if tree.Root() != filepath.Join(base, "real") {
		t.Fatalf("opened %q", tree.Root())
	}
	// The name leads elsewhere now; the tree stays.
	rename(t, base+"/real", base+"/moved")
	rename(t, base+"/other", base+"/real")
	r, err := tree.Resolve(0, "a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 10)
	if n, _ := r.File.Read(buf); string(buf[:n]) != "first" {
		t.Errorf("read %q", buf[:n])
	}
	if _, err := tree.Plan(t.Context(), "s-1"); contract.CodeOf(err) != contract.SchemaInvalid {
		t.Errorf("planned another tree: %v", err)
	}
}

// TestOpenSeesBindMounts: another name of a refused place is refused too.
func TestOpenSeesBindMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes mounts")
	}
	base := tempDir(t)
	state := filepath.Join(base, "state")
	for _, d := range []string{"state/sub", "etc", "alias"} {
		if err := os.MkdirAll(filepath.Join(base, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"/etc": base + "/etc", state: base + "/alias"} {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			t.Skipf("no mounts here: %v", err)
		}
		defer unix.Unmount(to, unix.MNT_DETACH)
	}
	for _, dir := range []string{base + "/etc", base + "/alias", base + "/alias/sub"} {
		tree, err := Open(dir, Options{StateDir: state, Policy: compile(t, writable)})
		if err == nil {
			tree.Close()
		}
		wantCode(t, err, contract.SchemaInvalid)
	}
}
