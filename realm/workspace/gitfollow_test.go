package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
)

// gitTree is what git takes for a git directory.
func gitTree(more map[string]string) map[string]string {
	out := map[string]string{".git/HEAD": "ref: refs/heads/main\n", ".git/objects/info/x": "", ".git/refs/heads/x": "", ".git/config": "[core]\n\tbare = false\n", ".git/hooks/pre-commit.sample": "", "a": "a"}
	for name, content := range more {
		if content == "@none" {
			delete(out, name)
			continue
		}
		out[name] = content
	}
	return out
}

// TestPlanCoversWhatGitFollows: wherever host git's own files lead into the
// tree, the session finds a read-only mount, or the start is refused.
func TestPlanCoversWhatGitFollows(t *testing.T) {
	both, read, write := []string{writable, gitWrite}, []string{writable}, []string{gitWrite}
	hookLink := map[string]string{".git/hooks/pre-commit.sample": "@none", ".git/hooks": "@symlink:../h"}
	with := func(base map[string]string, name, content string) map[string]string {
		out := map[string]string{name: content}
		for k, v := range base {
			out[k] = v
		}
		return out
	}
	config := func(text string) map[string]string { return map[string]string{".git/config": text} }
	tests := map[string]struct {
		docs  []string
		files map[string]string
		// covered names must be read-only; refused starts name the rule.
		covered []string
		refused string
		noted   string
	}{
		"hooks-link":            {read, with(hookLink, "h/pre-commit", "x"), []string{"h"}, "", ""},
		"hooks-link-dangling":   {read, hookLink, []string{"h"}, "", ""},
		"hooks-link-write":      {write, with(hookLink, "h/pre-commit", "x"), nil, "git:write", ""},
		"hook-link":             {both, map[string]string{".git/hooks/pre-commit": "@symlink:../../h1", "h1": "x"}, []string{"h1"}, "", ""},
		"hook-link-dangling":    {both, map[string]string{".git/hooks/pre-commit": "@symlink:../../s/h1"}, []string{"s/h1"}, "", ""},
		"hook-link-chain":       {both, map[string]string{".git/hooks/pre-commit": "@symlink:../../h1", "h1": "@symlink:./h2", "h2": "x"}, nil, "git:", ""},
		"config-link":           {read, map[string]string{".git/config": "@symlink:../cfg", "cfg": "[core]\n\thooksPath = hk\n", "hk/x": ""}, []string{"cfg", "hk"}, "", ""},
		"commondir-link":        {read, map[string]string{".git/commondir": "@symlink:../cd", "cd": ".\n"}, []string{"cd"}, "", ""},
		"info-link":             {write, map[string]string{".git/info": "@symlink:../i", "i/x": ""}, nil, "git:write", ""},
		"info-link-read":        {read, map[string]string{".git/info": "@symlink:../i", "i/x": ""}, []string{"i"}, "", ""},
		"objects-alternates":    {read, map[string]string{".git/objects/info/alternates": "@symlink:../../../alt", "alt": "/x\n"}, []string{"alt"}, "", ""},
		"module-link":           {read, map[string]string{".git/modules/m": "@symlink:../../m", "m/HEAD": "x"}, []string{"m"}, "", ""},
		"hooks-path":            {both, config("[core]\n\thooksPath = .githooks\n"), []string{".githooks"}, "", ""},
		"hooks-path-there":      {both, with(config("[core]\n\thooksPath = ./tools/../.githooks/\n"), "tools/x", ""), []string{".githooks"}, "", ""},
		"hooks-path-root":       {both, config("[core]\n\thooksPath = .\n"), nil, ruleGitConfig, ""},
		"hooks-path-link":       {both, with(with(config("[core]\n\thooksPath = hk\n"), "hk", "@symlink:./real"), "real/x", ""), nil, ruleGitConfig, ""},
		"hooks-path-in-git":     {write, config("[core]\n\thooksPath = .git/mine\n"), []string{".git/mine"}, "", ""},
		"hooks-path-outside":    {both, config("[core]\n\thooksPath = ../../elsewhere\n"), nil, "", ""},
		"include":               {both, with(with(config("[include]\n\tpath = ../.gitconfig\n"), ".gitconfig", "[core]\n\tfsmonitor = ./tools/fsm\n"), "tools/fsm", ""), []string{".gitconfig", "tools/fsm"}, "", ""},
		"include-missing":       {both, config("[include]\n\tpath = ../sub/.gitconfig\n"), []string{"sub/.gitconfig"}, "", ""},
		"include-loop":          {both, config("[include]\n\tpath = config\n"), nil, "", ""},
		"include-if":            {both, with(config("[includeIf \"gitdir:**\"]\n\tpath = ../.gitconfig\n"), ".gitconfig", ""), []string{".gitconfig"}, "", ""},
		"attributes-file":       {both, config("[core]\n\tattributesFile = my.attr\n"), []string{"my.attr"}, "", ""},
		"filter":                {both, with(config("[filter \"x\"]\n\tclean = python3 tools/filter.py --x\n"), "tools/filter.py", ""), []string{"tools/filter.py"}, "", ""},
		"filter-missing":        {both, config("[filter \"x\"]\n\tsmudge = tools/filter\n"), []string{"tools/filter"}, "", ""},
		"alias":                 {both, with(config("[alias]\n\tx = \"!sh -c './run a'\"\n"), "run", ""), []string{"run"}, "", ""},
		"unknown-setting":       {both, with(config("[some \"x\"]\n\tnew = tools/prog\n"), "tools/prog", ""), []string{"tools/prog"}, "", ""},
		"cd":                    {both, with(config("[filter \"x\"]\n\tclean = \"cd tools && ./x\"\n"), "tools/x", ""), []string{"tools/x"}, "", ""},
		"top-level":             {both, with(config("[filter \"x\"]\n\tclean = \"$(git rev-parse --show-toplevel)/tools/x\"\n"), "tools/x", ""), []string{"tools/x"}, "", "put together by a shell"},
		"hook-script":           {both, map[string]string{".git/hooks/pre-commit": "#!/bin/sh\nexec ./tools/x \"$@\"\n", "tools/x": ""}, []string{"tools/x"}, "", ""},
		"hooks-path-script":     {both, with(with(config("[core]\n\thooksPath = hk\n"), "hk/pre-commit", "cd sub; sh s/x\n"), "sub/s/x", ""), []string{"hk", "sub/s/x"}, "", ""},
		"shell":                 {both, config("[core]\n\tpager = $PWD/x\n"), nil, "", "put together by a shell"},
		"not-a-config":          {both, config("[core\n"), nil, "", "not one that realm understands"},
		"config-worktree":       {both, map[string]string{".git/config.worktree": "[core]\n\thooksPath = hk\n"}, []string{"hk"}, "", ""},
		"submodule":             {both, map[string]string{".git/modules/m/HEAD": "x", ".git/modules/m/objects/x": "", ".git/modules/m/refs/x": "", ".git/modules/m/config": "[core]\n\tworktree = ../../../m\n\thooksPath = .hk\n", "m/x": ""}, []string{"m/.hk"}, "", ""},
		"worktree-inside":       {both, map[string]string{".git/worktrees/w/gitdir": "@root/sub/.git", ".git/config": "[core]\n\thooksPath = .hk\n", "sub/x": ""}, []string{".hk", "sub/.hk"}, "", ""},
		"git-file-missing":      {both, map[string]string{".git/HEAD": "@none", ".git/objects/info/x": "@none", ".git/refs/heads/x": "@none", ".git/config": "@none", ".git/hooks/pre-commit.sample": "@none", ".git": "gitdir: ./later\n"}, []string{".git", "later"}, "", "not there"},
		"harmless":              {both, config("[core]\n\texcludesFile = a\n[remote \"o\"]\n\turl = ./a\n[branch \"m\"]\n\tmerge = refs/heads/m\n[alias]\n\tst = status\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n"), nil, "", ""},
		"command-outside":       {both, config("[core]\n\tpager = /usr/bin/less -R\n\teditor = vim\n"), nil, "", ""},
		"attributes-file-there": {both, with(config("[core]\n\tattributesFile = \"~/x\"\n"), "my.attr", ""), nil, "", "home directory"},
	}
	for name, c := range tests {
		for _, doc := range c.docs {
			t.Run(name+doc, func(t *testing.T) {
				root := filepath.Join(tempDir(t), "w")
				files := gitTree(c.files)
				for n, content := range files {
					if rest, ok := strings.CutPrefix(content, "@root"); ok {
						files[n] = root + rest + "\n"
					}
				}
				build(t, root, files)
				before := listing(t, root)
				p, err := openTree(t, root, doc).Plan(t.Context(), "s-1")
				if c.refused != "" {
					wantCode(t, err, contract.PathRefused)
					if !strings.Contains(err.Error(), c.refused) {
						t.Errorf("%v does not say %q", err, c.refused)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				checkOrder(t, p)
				for _, rel := range c.covered {
					if !readOnlyIn(p, rel) {
						t.Errorf("%s is writable:\n%s", rel, describe(p))
					}
				}
				if extra := followedBy(p); c.covered == nil && len(extra) > 0 {
					t.Errorf("covered as well: %q", extra)
				}
				if got := strings.Join(p.Degraded, "\n"); !strings.Contains(got, c.noted) || c.noted == "" && got != "" {
					t.Errorf("degraded %q, want %q", got, c.noted)
				}
				if err := p.Release(); err != nil {
					t.Fatal(err)
				}
				if after := listing(t, root); len(after) != len(before) {
					t.Errorf("left behind %d names", len(after)-len(before))
				}
			})
		}
	}
}

// readOnlyIn reports whether the innermost mount at rel is read-only.
func readOnlyIn(p *Plan, rel string) bool {
	name, ro := filepath.Join(p.Root, rel), !p.Workspace.Write
	for _, m := range p.Mounts {
		if contains(m.Destination, name) {
			ro = !m.Write
		}
	}
	return ro
}

func followedBy(p *Plan) []string {
	var out []string
	for _, m := range p.Mounts {
		if m.Rule == ruleGitConfig {
			out = append(out, m.Destination)
		}
	}
	return out
}

// TestPlanFollowsTheHostsOwnConfiguration: the user's own settings, and a
// repository around the workspace, lead into it too.
func TestPlanFollowsTheHostsOwnConfiguration(t *testing.T) {
	base := tempDir(t)
	write(t, base+"/home/.gitconfig", "[core]\n\thooksPath = .githooks\n")
	build(t, base+"/repo", gitTree(map[string]string{".git/config": "[core]\n\tfsmonitor = w/tools/fsm\n", ".git/hooks/pre-commit": "@symlink:../../w/hook", "w/a": "a", "w/hook": ""}))
	tree, err := Open(base+"/repo/w", Options{StateDir: tempDir(t), Home: base + "/home", Policy: compile(t, writable)})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	p, err := tree.Plan(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	for _, rel := range []string{".githooks", "tools/fsm", "hook"} {
		if !readOnlyIn(p, rel) {
			t.Errorf("%s is writable", rel)
		}
	}
}

// TestPlanCoversABareRepository: the workspace is a git directory itself.
func TestPlanCoversABareRepository(t *testing.T) {
	for _, doc := range []string{writable, gitWrite} {
		root := tempDir(t)
		git(t, root, "init", "-q", "--bare", ".")
		before := listing(t, root)
		tree := openTree(t, root, doc)
		p, err := tree.Plan(t.Context(), "s-1")
		if err != nil {
			t.Fatal(err)
		}
		for _, rel := range []string{"config", "hooks", "hooks/pre-receive", "info/attributes", "commondir", "config.worktree", "modules", "worktrees"} {
			if !readOnlyIn(p, rel) {
				t.Errorf("%s is writable (%s)", rel, doc)
			}
		}
		if got := readOnlyIn(p, "objects/x"); got != (doc == writable) {
			t.Errorf("objects read-only: %v with %s", got, doc)
		}
		git(t, root, "rev-parse", "--is-bare-repository") // host git still reads it
		if found, err := tree.HostExecuted(t.Context(), p.Made); err != nil || len(found) > 0 {
			t.Errorf("reported %q, %v", found, err)
		}
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
		if after := listing(t, root); len(after) != len(before) {
			t.Errorf("left behind %d names", len(after)-len(before))
		}
	}
}

// TestExecutedParts: both lists are one.
func TestExecutedParts(t *testing.T) {
	if diff := cmp.Diff(readOnlyGitParts(compile(t, gitWrite)), executedParts); diff != "" {
		t.Errorf("(-policy +ours):\n%s", diff)
	}
}

// TestHostExecutedFindsABareRoot: the session makes the workspace one.
func TestHostExecutedFindsABareRoot(t *testing.T) {
	root := tempDir(t)
	write(t, root+"/a", "a")
	tree := openTree(t, root, writable)
	p, err := tree.Plan(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	build(t, root, map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = true\n", "objects": "@dir", "refs": "@dir"})
	found, err := tree.HostExecuted(t.Context(), p.Made)
	if err != nil || !slices.Contains(found, ".") {
		t.Errorf("found %q, %v", found, err)
	}
}

// TestPlanCoversHardLinksOfGitsFiles: a second name of .git/config in the tree.
func TestPlanCoversHardLinksOfGitsFiles(t *testing.T) {
	for _, doc := range []string{writable, gitWrite} {
		root := tempDir(t)
		build(t, root, gitTree(map[string]string{"node_modules/deep/x": ""}))
		for from, to := range map[string]string{".git/config": "node_modules/deep/cfg", ".git/hooks/pre-commit.sample": "hook"} {
			if err := os.Link(filepath.Join(root, from), filepath.Join(root, to)); err != nil {
				t.Fatal(err)
			}
		}
		p := newPlan(t, root, tempDir(t), "s-1", doc)
		if !readOnlyIn(p, "node_modules/deep/cfg") || !readOnlyIn(p, "hook") || len(p.Degraded) > 0 {
			t.Errorf("not covered:\n%s", describe(p))
		}
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResolveKeepsWhatGitFollows: the file tools write none of it, also after
// the host replaced the file.
func TestResolveKeepsWhatGitFollows(t *testing.T) {
	root := tempDir(t)
	build(t, root, gitTree(map[string]string{".git/config": "[include]\n\tpath = ../own.cfg\n", "own.cfg": "", "new": ""}))
	tree := openTree(t, root, writable)
	p, err := tree.Plan(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	rename(t, root+"/new", root+"/own.cfg")
	_, err = tree.Resolve(1, "own.cfg")
	wantCode(t, err, contract.PathRefused)
	r, err := tree.Resolve(0, "own.cfg")
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
