package workspace

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shapes are trees of many kinds. Each is planned under each of its policies and
// compared with a golden file.
var shapes = map[string]struct {
	files    map[string]string
	policies map[string]string
}{
	"plain": {
		map[string]string{"a": "a", "src/b": "b"},
		map[string]string{"read-only": readOnly, "write": writable, "git-write": gitWrite},
	},
	"repository": {
		map[string]string{".git/HEAD": "x", ".git/objects/a": "", ".git/refs/a": "", ".git/config": "", ".git/hooks/x": "", ".git/info/exclude": "", "a": "a"},
		map[string]string{"read-only": readOnly, "write": writable, "git-write": gitWrite},
	},
	"protected": {
		map[string]string{".git/HEAD": "x", ".husky/pre": "x", ".github/workflows/ci.yml": "x", ".Envrc": "x", ".mcp.json": "{}", "deploy/prod/keys.yaml": "x", "go.sum": "x", "sub/go.sum": "y"},
		map[string]string{
			"write":     writable,
			"unprotect": `{"mode":"workspace-write","unprotect":[".github/workflows",".husky",".mcp.json"]}`,
			"own":       `{"mode":"workspace-write","protect":["**/go.sum","deploy/prod/keys.yaml","deploy/stage/keys.yaml"]}`,
		},
	},
	"blocked": { // a file where a protected name would need a directory
		map[string]string{".github": "x"},
		map[string]string{"write": writable},
	},
	"hidden": {
		map[string]string{
			".env": "S", ".env.example": "x", ".env.local": "S", "a/b/.env": "S", "a/b/c/d/e/.env": "too deep", "node_modules/p/.env": "skipped",
			"venv/pyvenv.cfg": "", "venv/.env": "skipped", "keys/id_ed25519": "k", ".npmrc": "//r/:_authToken=x", "ui/.npmrc": "color=true",
			"ui/link": "@symlink:./.npmrc", ".ssh/id": "k", "k8s.kubeconfig": "k", "certs/a.pem": "k", "certs/b.pem": "k", "tmp/app.sock": "@socket",
			"conf/.env": "@symlink:../secret.txt", "secret.txt": "S", "conf/.env.out": "@symlink:/etc/hostname", "conf/.env.gone": "@symlink:./none", ".husky/.env": "S",
		},
		map[string]string{"read-only": readOnly, "write": writable, "own": `{"mode":"workspace-write","hide":["certs/*.pem","a"]}`},
	},
	"bare-worktree": { // a common layout: .bare beside a .git file
		map[string]string{".git": "gitdir: ./.bare\n", ".bare/HEAD": "x", ".bare/objects/a": "", ".bare/refs/a": "", ".bare/config": ""},
		map[string]string{"read-only": readOnly, "write": writable, "git-write": gitWrite},
	},
	"odd-git": {
		map[string]string{".git": "gitdir: /etc\n"},
		map[string]string{"write": writable},
	},
}

func TestPlanGolden(t *testing.T) {
	for shape, s := range shapes {
		for _, name := range slices.Sorted(maps.Keys(s.policies)) {
			t.Run(shape+"-"+name, func(t *testing.T) {
				root := filepath.Join(tempDir(t), "w")
				build(t, root, s.files)
				before := listing(t, root)
				tree := openTree(t, root, s.policies[name])
				p, err := tree.Plan(t.Context(), "s-1")
				if err != nil {
					t.Fatal(err)
				}
				got := describe(p)
				if err := p.Release(); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, listing(t, root)); diff != "" {
					t.Errorf("the tree is not as it was (-before +after):\n%s", diff)
				}
				checkOrder(t, p)
				golden(t, shape+"-"+name, got)
			})
		}
	}
}

// checkOrder: a mount below another comes after it, and none twice.
func checkOrder(t *testing.T, p *Plan) {
	t.Helper()
	seen := map[string]bool{}
	for i, m := range p.Mounts {
		if seen[m.Destination] {
			t.Errorf("%s is mounted twice", m.Destination)
		}
		seen[m.Destination] = true
		for _, later := range p.Mounts[i+1:] {
			if contains(later.Destination, m.Destination) {
				t.Errorf("%s comes after %s", later.Destination, m.Destination)
			}
		}
	}
}

func describe(p *Plan) string {
	var b strings.Builder
	short := strings.NewReplacer(p.Root, "W", p.StateDir, "S").Replace
	for _, m := range append([]Mount{{Bind: p.Workspace, Why: "the workspace"}}, p.Mounts...) {
		mode := "ro"
		if m.Write {
			mode = "rw"
		}
		line := fmt.Sprintf("%-11s %s %s", m.Role, mode, short(m.Destination))
		if m.Source != m.Destination {
			line += " <- " + short(m.Source)
		}
		if m.Rule != "" {
			line += " [" + m.Rule + "]"
		}
		b.WriteString(line + "\n    " + m.Why + "\n")
	}
	for _, c := range p.Conditions {
		fmt.Fprintf(&b, "condition %s %s\n", c.Type, c.Reason)
	}
	for _, d := range p.Degraded {
		fmt.Fprintf(&b, "degraded %s\n", d)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "plans", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// listing is every name below root with its type and content.
func listing(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		content := d.Type().String()
		if d.Type().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			content = string(data)
		}
		rel, err := filepath.Rel(root, name)
		out[rel] = content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPlanRefuses(t *testing.T) {
	many := map[string]string{}
	for i := range 300 {
		many[fmt.Sprintf("f/%d.pem", i)] = "k"
	}
	tests := map[string]struct {
		files        map[string]string
		doc          string
		code         contract.Code
		rule, absent string
	}{
		"link":          {map[string]string{".husky": "@symlink:./x", "x/a": ""}, writable, contract.PathRefused, "protect:.husky", ""},
		"link-above":    {map[string]string{".github": "@symlink:./x", "x/workflows/a": ""}, writable, contract.PathRefused, "protect:.github/workflows", ""},
		"link-git":      {map[string]string{".git": "@symlink:./x", "x/HEAD": ""}, writable, contract.PathRefused, "git:read", ""},
		"link-hooks":    {map[string]string{".git/HEAD": "", ".git/hooks": "@symlink:../scripts", "scripts/x": ""}, gitWrite, contract.PathRefused, "git:write", ""},
		"own-link":      {map[string]string{"a/go.sum": "@symlink:./x"}, `{"mode":"workspace-write","protect":["**/go.sum"]}`, contract.PathRefused, "/protect/0", ""},
		"many-hidden":   {many, `{"hide":["x","**/*.pem"]}`, contract.SchemaInvalid, "/hide/1: matches more than 256", ""},
		"not-utf-8":     {map[string]string{"d\xff/x.pem": "k"}, `{"hide":["**/*.pem"]}`, contract.PathRefused, "/hide/0: a name is not valid UTF-8", ""},
		"many-protects": {many, `{"mode":"workspace-write","protect":["**/*.pem"]}`, contract.SchemaInvalid, "/protect/0: matches more than 256", ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			root := tempDir(t)
			build(t, root, c.files)
			before := listing(t, root)
			_, err := openTree(t, root, c.doc).Plan(t.Context(), "s-1")
			wantCode(t, err, c.code)
			if !strings.Contains(err.Error(), c.rule) {
				t.Errorf("%v does not say %q", err, c.rule)
			}
			if diff := cmp.Diff(before, listing(t, root)); diff != "" {
				t.Errorf("a refused plan left something:\n%s", diff)
			}
		})
	}
}

// TestPlanIsData: a plan that was stored does what the first one did.
func TestPlanIsData(t *testing.T) {
	root := tempDir(t)
	build(t, root, map[string]string{".env": "S", "a": "a"})
	before := listing(t, root)
	tree := openTree(t, root, writable)
	p, err := tree.Plan(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	stored := &Plan{}
	if err := json.Unmarshal(data, stored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.Binds(), stored.Binds()); diff != "" {
		t.Errorf("other mounts:\n%s", diff)
	}
	again := openTree(t, root, writable)
	again.Adopt(stored)
	rename(t, root+"/.env", root+"/env")
	_, err = again.Resolve(0, "env")
	wantCode(t, err, contract.PathRefused)
	rename(t, root+"/env", root+"/.env")
	for range 2 {
		if err := stored.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, listing(t, root)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

// TestPlanCoversHardLinks: the other names of hidden and read-only files are
// covered like the first; those that nobody can find are named.
func TestPlanCoversHardLinks(t *testing.T) {
	base := tempDir(t)
	root := filepath.Join(base, "w")
	build(t, root, map[string]string{".env": "S", ".envrc": "x", "plain": "x", "a/b/c/d/e/x": "", ".netrc": "far"})
	for from, to := range map[string]string{".env": "a/b/c/d/e/env", ".envrc": "envrc-second", "plain": "plain-second", ".netrc": "../outside"} {
		if err := os.Link(filepath.Join(root, from), filepath.Join(root, to)); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlan(t, root, tempDir(t), "s-1", writable)
	defer p.Release()
	got := map[string]string{}
	for _, m := range p.Mounts {
		if rel, ok := below(root, m.Destination); ok && strings.Contains(m.Why, "hard link") {
			got[rel] = m.Role
		}
	}
	if diff := cmp.Diff(map[string]string{"a/b/c/d/e/env": roleHide, "envrc-second": roleProtect}, got); diff != "" {
		t.Errorf("covered (-want +got):\n%s", diff)
	}
	if len(p.Degraded) != 1 || !strings.HasPrefix(p.Degraded[0], "hide:**/.netrc") {
		t.Errorf("degraded %q", p.Degraded)
	}
	if _, err := adopted(t, root, p).Resolve(0, "a/b/c/d/e/env"); err == nil {
		t.Error("a hidden file was opened by its second name")
	}
}

// TestPlanHidePartial: a tree in which not every hidden name can be covered
// starts and says so; the outermost names are covered.
func TestPlanHidePartial(t *testing.T) {
	many := map[string]string{".env": "S", "z/.env": "S"}
	for i := range 3000 {
		many[fmt.Sprintf("a/d%d/.env", i)] = "S"
	}
	for name, c := range map[string]struct {
		files  map[string]string
		reason string
		hides  int
	}{
		"many":      {many, "TooMany", maxBuiltinHides},
		"not-utf-8": {map[string]string{"d\xff/.env": "S", ".env": "S"}, "UnmountableName", 1},
		"odd":       {map[string]string{"d\n/.env": "S", "d:,\\\"'/.env": "S", "-rf/.env": "S"}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			root := tempDir(t)
			build(t, root, c.files)
			p, err := openTree(t, root, readOnly).Plan(t.Context(), "s-1")
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release()
			hides := map[string]bool{}
			for _, m := range p.Mounts {
				if m.Role == roleHide {
					hides[m.Destination] = true
				}
			}
			switch {
			case c.reason == "" && len(p.Conditions) > 0:
				t.Errorf("conditions %+v", p.Conditions)
			case c.reason == "":
			case len(p.Conditions) != 1 || p.Conditions[0].Type != "HidePartial" || !p.Conditions[0].Status:
				t.Errorf("conditions %+v", p.Conditions)
			case p.Conditions[0].Reason == "WalkCutShort": // a slow machine
				return
			case p.Conditions[0].Reason != c.reason:
				t.Errorf("conditions %+v", p.Conditions)
			}
			if len(hides) != c.hides || c.files[".env"] != "" && !hides[root+"/.env"] || name == "many" && !hides[root+"/z/.env"] {
				t.Errorf("%d names are covered: %v", len(hides), hides)
			}
			if got := p.Probes(); len(got) > maxProbes || len(got) == 0 {
				t.Errorf("%d probes", len(got))
			}
		})
	}
}

// TestPlanKnowsWhatProgramsCannotReach: what lies below a closed directory is
// covered but not tried.
func TestPlanKnowsWhatProgramsCannotReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: others cannot look into a closed directory")
	}
	root := tempDir(t)
	build(t, root, gitTree(map[string]string{"p/.env": "S", "q/.env": "S"}))
	for name, mode := range map[string]os.FileMode{"p": 0, ".git": 0, ".": 0o555} {
		if err := os.Chmod(filepath.Join(root, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlan(t, root, tempDir(t), "s-1", gitWrite)
	defer p.Release()
	if !readOnlyIn(p, "p/.env") || !readOnlyIn(p, ".git/config") || !p.Unwritable {
		t.Errorf("not covered, or writable:\n%s", describe(p))
	}
	if diff := cmp.Diff([]string{root + "/q/.env"}, p.Probes()); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
}

func adopted(t *testing.T, root string, p *Plan) *Tree {
	t.Helper()
	tree := openTree(t, root, writable)
	tree.Adopt(p)
	return tree
}
