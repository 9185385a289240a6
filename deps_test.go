package realm_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "realm.dev/"
	tags   = "-tags=containers_image_openpgp,exclude_graphdriver_btrfs"
)

// A rule says what one package, or with a final /... a whole subtree, may
// import. A subtree may always import itself. Of several rules that fit, the
// longest counts.
type rule struct {
	pkg   string
	own   []string // packages of this module
	third []string // module path prefixes of others; any: no limit
	never []string // packages of the standard library
	why   string
}

var any3 = []string{"any"}

// support is what every layer above contract may use.
var support = []string{"internal/lazyregexp", "internal/buildinfo", "internal/cleanup", "internal/private"}

var rules = []rule{
	{
		pkg: "schemas",
		why: "frozen documents, embedded, and no logic",
	},
	{
		pkg: "contract", own: []string{"schemas"},
		third: []string{"github.com/santhosh-tekuri/jsonschema", "sigs.k8s.io/yaml", "go.yaml.in/yaml", "golang.org/x/text"},
		never: []string{"net", "net/http", "os/exec"},
		why:   "the types of every document are what clients import; they must stay light",
	},
	{
		pkg: "policy/...", own: []string{"contract"},
		third: []string{
			"mvdan.cc/sh", "github.com/bmatcuk/doublestar", "github.com/distribution/reference",
			"golang.org/x/net/idna", "golang.org/x/net/publicsuffix", "golang.org/x/text",
		},
		never: []string{"os", "os/exec", "net", "net/http", "syscall", "math/rand", "math/rand/v2"},
		why:   "a decision depends on the policy and the call alone",
	},
	{
		pkg: "container", own: []string{"contract"},
		why: "what realm asks of an engine knows no engine",
	},
	{
		pkg: "container/idmap", own: []string{"contract", "container"}, third: []string{"golang.org/x/sys"},
		why: "facts about the kernel that the spec needs, whichever the engine",
	},
	{
		pkg: "container/rootfs", own: []string{"contract", "container"}, third: []string{"golang.org/x/sys"},
		why: "the skeleton of image host, whichever the engine",
	},
	{
		pkg: "container/seccomp", own: []string{"contract"}, third: []string{
			"go.podman.io/common/pkg/seccomp", "github.com/opencontainers/runtime-spec", "golang.org/x/sys",
		},
		why: "the profile, made from the engine's default",
	},
	{
		pkg: "container/containertest/...", own: []string{"contract", "container"}, third: []string{"github.com/google/go-cmp"},
		why: "the fake and the suite that every engine passes",
	},
	{
		pkg: "container/podman/...", own: append([]string{"contract", "container", "container/idmap", "container/seccomp"}, support...), third: any3,
		why: "the one place where the Podman bindings are, about 550 packages",
	},
	{
		pkg: "container/guest/...", third: []string{"golang.org/x/sys"},
		why: "runs as PID 1 beside the workload: small, static and nothing of ours to trust",
	},
	{
		pkg: "egress/...", own: []string{"contract", "policy/..."}, third: any3,
		why: "connections follow the policy; they know neither sessions nor engines",
	},
	{
		pkg: "realm", own: append([]string{
			"contract", "policy/...", "egress/...",
			"container", "container/idmap", "container/rootfs", "container/seccomp", "container/guest/...",
			"realm/control", "realm/journal/...", "realm/workspace/...",
		}, support...), third: any3,
		why: "orchestrates through container.Engine, whichever engine that is",
	},
	{
		pkg: "realm/journal/...", own: append([]string{"contract", "policy/...", "container"}, support...), third: any3,
		why: "part of realm that does not know sessions",
	},
	{
		pkg: "realm/workspace/...", own: append([]string{"contract", "policy/...", "container"}, support...), third: any3,
		why: "part of realm that does not know sessions",
	},
	{
		pkg: "realm/control/...", own: append([]string{"contract"}, support...), third: any3,
		why: "serves any session that has its interface; realm has it",
	},
	{
		pkg: "realm/client/...", own: []string{"contract"}, third: any3,
		why: "others import it: it must not bring realm itself along",
	},
	{
		pkg: "internal/...", own: []string{"contract"}, third: any3,
		why: "support that any layer may use depends on none",
	},
	{
		pkg: "internal/cli/...", own: []string{"..."}, third: any3,
		why: "puts everything together",
	},
	{
		pkg: "cmd/realm", own: []string{"internal/cli", "internal/term", "realm/workspace"},
		why: "main chooses between the command line and the helpers that realm runs itself as",
	},
	{
		pkg: "cmd/realm-init", own: []string{"container/guest/..."},
		why: "the program inside the container",
	},
	{
		pkg: "integration/...", own: []string{"..."}, third: any3,
		why: "tests of the whole",
	},
}

// bindings is what only container/podman may import, tests included.
const bindings = "github.com/containers/podman"

type goPackage struct {
	ImportPath, Dir, Doc, Name         string
	GoFiles                            []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

func (p goPackage) path() string { return strings.TrimPrefix(p.ImportPath, module) }

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", tags,
		"-json=ImportPath,Dir,Doc,Name,GoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			packages = append(packages, p)
		}
	}
}

// covers tells whether pattern, which may end in /..., fits path.
func covers(pattern, path string) bool {
	if pattern == "..." {
		return true
	}
	base, subtree := strings.CutSuffix(pattern, "/...")
	return path == base || subtree && strings.HasPrefix(path, base+"/")
}

func coversAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, path) })
}

func hasPrefix(prefixes []string, path string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return path == p || strings.HasPrefix(path, p+"/") })
}

func ruleFor(path string) (rule, bool) {
	var best rule
	for _, r := range rules {
		if covers(r.pkg, path) && len(r.pkg) > len(best.pkg) {
			best = r
		}
	}
	return best, best.pkg != ""
}

// allows tells whether a package under r may import path.
func (r rule) allows(path string) bool {
	own, isOwn := strings.CutPrefix(path, module)
	switch {
	case isOwn:
		sibling, _ := ruleFor(own)
		return sibling.pkg == r.pkg || coversAny(r.own, own)
	case !strings.Contains(strings.SplitN(path, "/", 2)[0], "."): // the standard library
		return !slices.Contains(r.never, path)
	default:
		return slices.Equal(r.third, any3) || hasPrefix(r.third, path)
	}
}

func TestImports(t *testing.T) {
	for _, p := range listPackages(t) {
		r, ok := ruleFor(p.path())
		if !ok {
			t.Errorf("%s: no rule says what it may import", p.path())
			continue
		}
		for _, path := range p.Imports {
			if !r.allows(path) {
				t.Errorf("%s must not import %s: %s", p.path(), path, r.why)
			}
		}
		if covers("container/podman/...", p.path()) {
			continue
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if strings.HasPrefix(path, bindings) {
				t.Errorf("%s must not import %s: only container/podman may", p.path(), path)
			}
		}
	}
}

// What runs inside the container is counted with everything that it brings.
func TestGuestIsSmall(t *testing.T) {
	for _, p := range listPackages(t) {
		r, _ := ruleFor(p.path())
		if r.pkg != "container/guest/..." && r.pkg != "cmd/realm-init" {
			continue
		}
		guest, _ := ruleFor("container/guest")
		for _, path := range p.Deps {
			std := !strings.Contains(strings.SplitN(path, "/", 2)[0], ".") || strings.HasPrefix(path, "vendor/")
			if !std && !guest.allows(path) {
				t.Errorf("%s brings %s: %s", p.path(), path, guest.why)
			}
		}
	}
}

func TestNamesAndDocs(t *testing.T) {
	empty := []string{"util", "utils", "common", "helpers", "pkg", "misc"}
	for _, p := range listPackages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.path())
		}
		if slices.Contains(empty, p.Name) {
			t.Errorf("%s: the name says nothing", p.path())
		}
	}
}

// Work in init runs for everybody who imports a package, whether wanted or not;
// and a policy decision must not depend on when it is made.
func TestNoHiddenWork(t *testing.T) {
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTicker", "NewTimer"}
	for _, p := range listPackages(t) {
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Name.Name == "init" && n.Recv == nil {
						t.Errorf("%s/%s: has an init function", p.path(), name)
					}
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					if ok && x.Name == "time" && slices.Contains(clock, n.Sel.Name) && covers("policy/...", p.path()) {
						t.Errorf("%s/%s: uses time.%s", p.path(), name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// A rule that allows everything would pass all of the above.
func TestRulesRefuse(t *testing.T) {
	tests := []struct {
		pkg, imports string
		want         bool
	}{
		{"contract", "realm.dev/schemas", true},
		{"contract", "realm.dev/policy", false},
		{"contract", "os/exec", false},
		{"policy/shell", "realm.dev/policy", true},
		{"policy/shell", "mvdan.cc/sh/v3/syntax", true},
		{"policy/shell", "net", false},
		{"policy/shell", "net/netip", true},
		{"policy", "realm.dev/container", false},
		{"container/guest/wire", "realm.dev/contract", false},
		{"container/guest/wire", "golang.org/x/sys/unix", true},
		{"container/guest/wire", "golang.org/x/system", false},
		{"realm", "realm.dev/container/podman", false},
		{"realm", "realm.dev/internal/cli", false},
		{"realm/client", "realm.dev/realm", false},
		{"realm/control", "realm.dev/realm", false},
		{"realm", "realm.dev/realm/control", true},
		{"realm", "realm.dev/realm/client", false},
		{"container/rootfs", "go.podman.io/common/pkg/seccomp", false},
		{"cmd/realm", "github.com/spf13/cobra", false},
		{"internal/cleanup", "realm.dev/realm", false},
		{"internal/cleanup", "realm.dev/internal/cli", false},
		{"internal/cleanup", "realm.dev/internal/term", true},
		{"internal/cli", "realm.dev/container/podman", true},
	}
	for _, test := range tests {
		r, ok := ruleFor(test.pkg)
		if !ok {
			t.Errorf("%s: no rule", test.pkg)
			continue
		}
		if got := r.allows(test.imports); got != test.want {
			t.Errorf("%s imports %s: allowed %t, want %t", test.pkg, test.imports, got, test.want)
		}
	}
}
