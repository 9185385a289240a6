package policy

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"realm.dev/contract"
)

func TestPathRule(t *testing.T) {
	read := mustCompile(t, `{}`)
	write := mustCompile(t, `{"mode":"workspace-write","protect":["docs/**","**/*.lock"],"hide":["secrets","**/*.pem"],"unprotect":[".vscode"]}`)
	git := mustCompile(t, `{"mode":"workspace-write","git":"write"}`)
	tests := []struct {
		c    *Compiled
		rel  string
		op   Op
		st   FileState
		rule string // "" is allowed
	}{
		{read, "", OpList, FileUnknown, ""},
		{read, ".", OpExec, FileUnknown, ""},
		{read, "a", OpRead, FileUnknown, ""},
		{read, "a", OpWrite, FileUnknown, "mode:read-only"},
		{read, ".env", OpRead, FileUnknown, "hide:**/.env"},
		{read, ".env", OpWrite, FileAbsent, "mode:read-only"},
		{write, "a", OpWrite, FileUnknown, ""},
		{write, "../a", OpRead, FileUnknown, "path-escapes-root"},
		{write, "a/..", OpRead, FileUnknown, "path-escapes-root"},
		{write, "/a", OpRead, FileUnknown, "path-escapes-root"},
		{write, "a\x00", OpRead, FileUnknown, "path-escapes-root"},
		{write, "..hidden", OpWrite, FileUnknown, ""},
		{write, `.git\config`, OpWrite, FileUnknown, ""}, // a name with a backslash in it

		{write, ".git/hooks/pre-commit", OpWrite, FileUnknown, "git:read"},
		{write, "./.GIT//index", OpWrite, FileUnknown, "git:read"},
		{write, ".git/index", OpRead, FileUnknown, ""},
		{write, ".git", OpWrite, FileUnknown, "git:read"},
		{write, "sub/.git/config", OpWrite, FileUnknown, ""}, // reported, not refused
		{git, ".git/index", OpWrite, FileUnknown, ""},
		{git, ".git/refs/heads/main", OpWrite, FileUnknown, ""},
		{git, ".git/hooks/pre-commit", OpWrite, FileUnknown, "git:write"},
		{git, ".git/CONFIG", OpWrite, FileUnknown, "git:write"},
		{git, ".git/modules/m/config", OpWrite, FileUnknown, "git:write"},
		{git, ".git", OpWrite, FileUnknown, "git:write"},
		{git, ".Git/", OpWrite, FileUnknown, "git:write"},

		{write, ".husky/pre-commit", OpWrite, FileUnknown, "protect:.husky"},
		{write, ".hu\u017fky/x", OpWrite, FileUnknown, "protect:.husky"},
		{write, ".husky/pre-commit", OpRead, FileUnknown, ""},
		{write, ".github/workflows/ci.yml", OpWrite, FileUnknown, "protect:.github/workflows"},
		{write, ".github/CODEOWNERS", OpWrite, FileUnknown, ""},
		{write, "sub/.husky/x", OpWrite, FileUnknown, ""}, // built-in entries are anchored
		{write, ".vscode/tasks.json", OpWrite, FileUnknown, ""},
		{write, "DOCS/a/b", OpWrite, FileUnknown, "/protect/0"},
		{write, "x/y.Lock", OpWrite, FileUnknown, "/protect/1"},
		{write, "y.lock/z", OpWrite, FileUnknown, "/protect/1"},

		{write, "x/.env", OpRead, FileUnknown, "hide:**/.env"},
		{write, "x/.ENV", OpList, FileUnknown, "hide:**/.env"},
		{write, ".env.local", OpRead, FilePlain, "hide:**/.env.*"},
		{write, ".env.example", OpRead, FileUnknown, ""},
		{write, ".env.Example", OpRead, FileUnknown, "hide:**/.env.*"}, // exceptions are exact
		{write, ".env.example/.env.x", OpRead, FileUnknown, "hide:**/.env.*"},
		{write, ".envrc", OpRead, FileUnknown, ""},
		{write, ".envrc", OpWrite, FileUnknown, "protect:.envrc"},
		{write, "x/id_ed25519", OpRead, FileUnknown, "hide:**/id_{rsa,dsa,ecdsa,ed25519}"},
		{write, "x/id_ed25519.pub", OpRead, FileUnknown, ""},
		{write, ".ssh/config", OpRead, FileUnknown, "hide:.ssh"},
		{write, ".ssh", OpExec, FileUnknown, "hide:.ssh"},
		{write, "a/.aws/credentials", OpRead, FileUnknown, "hide:**/.aws/credentials"},
		{write, "prod.kubeconfig", OpRead, FileUnknown, "hide:**/*.kubeconfig"},
		{write, "secrets/a", OpRead, FileUnknown, "/hide/0"},
		{write, "Secrets", OpList, FileUnknown, "/hide/0"},
		{write, "x/secrets", OpRead, FileUnknown, ""},
		{write, "k.PEM", OpRead, FileUnknown, "/hide/1"},

		// A new file may take a built-in hidden name, but not one of the policy's,
		// and not in a hidden directory.
		{write, "~/.ssh/id_rsa", OpWrite, FileAbsent, ""},
		{write, "~/.ssh/id_rsa", OpWrite, FileUnknown, "hide:**/id_{rsa,dsa,ecdsa,ed25519}"},
		{write, "~/.ssh/id_rsa", OpRead, FileAbsent, "hide:**/id_{rsa,dsa,ecdsa,ed25519}"},
		{write, ".env", OpWrite, FilePlain, "hide:**/.env"},
		{write, ".ssh/new", OpWrite, FileAbsent, "hide:.ssh"},
		{write, "secrets", OpWrite, FileAbsent, "/hide/0"},
		{write, "x.pem", OpWrite, FileAbsent, "/hide/1"},

		{write, ".npmrc", OpRead, FileUnknown, "hide:**/.npmrc"},
		{write, ".npmrc", OpRead, FileToken, "hide:**/.npmrc"},
		{write, ".npmrc", OpRead, FilePlain, ""},
		{write, "a/.pypirc", OpWrite, FileAbsent, ""},
		{write, ".npmrc/.npmrc", OpRead, FileToken, "hide:**/.npmrc"},
		{write, ".npmrc/x", OpRead, FileUnknown, ""},
		{write, "secrets/.npmrc", OpRead, FilePlain, "/hide/0"},
	}
	for _, test := range tests {
		v := test.c.PathRule(test.rel, test.op, test.st)
		if v.Rule != test.rule || (v.Effect == contract.Allow) != (test.rule == "") {
			t.Errorf("%q op %d state %d: %s by %q, want %q", test.rel, test.op, test.st, v.Effect, v.Rule, test.rule)
		}
		if v.Effect == contract.Deny && (v.Code != contract.PathRefused || v.Reason == "") {
			t.Errorf("%q: code %q, reason %q", test.rel, v.Code, v.Reason)
		}
		asks := test.st == FileUnknown && TokenFile(test.rel) && strings.HasPrefix(v.Rule, "hide:")
		if v.NeedsContent != asks {
			t.Errorf("%q: needs content is %t", test.rel, v.NeedsContent)
		}
	}
	if v := write.PathRule("secrets/.npmrc", OpRead, FileUnknown); v.NeedsContent {
		t.Error("content is asked for where it would change nothing")
	}
}

func TestPathSets(t *testing.T) {
	c := mustCompile(t, `{"mode":"workspace-write","protect":["a/{b,c}","**/*.lock"],"hide":["secrets/*.key"],"unprotect":[".realm"]}`)
	var literals []string
	for _, e := range c.Protect().Own().Entries() {
		if e.BuiltIn {
			t.Errorf("%s is not built in", e.Rule)
		}
		literals = append(literals, e.Rule+"="+e.Literal)
	}
	if want := []string{"/protect/0=a/b", "/protect/0=a/c", "/protect/1="}; !slices.Equal(literals, want) {
		t.Errorf("own entries %q, want %q", literals, want)
	}
	if n := len(c.Protect().BuiltIn().Entries()); n != len(builtinProtect)-1 {
		t.Errorf("%d built-in entries", n)
	}
	for _, e := range c.Protect().BuiltIn().Entries() {
		if e.Literal == "" || strings.Count(e.Literal, "/") > 1 {
			t.Errorf("%s does not name one path at depth 2 at most", e.Rule)
		}
	}
	if _, ok := c.Protect().Match(".realm/x"); ok {
		t.Error("an entry that was given up still protects")
	}
	if e, ok := c.Protect().Match("x/y.lock/z"); !ok || e.Pattern != "**/*.lock" {
		t.Errorf("matched %q, %t", e.Pattern, ok)
	}
	if _, ok := c.Protect().MatchSelf("x/y.lock/z"); ok {
		t.Error("a name below matches itself")
	}
	if _, ok := c.Hide().Own().MatchSelf("Secrets/A.KEY"); !ok {
		t.Error("another case is not matched")
	}
	own := c.Hide().Own()
	if !own.CouldMatchBelow("") || !own.CouldMatchBelow("secrets") || own.CouldMatchBelow("secrets/x") || own.CouldMatchBelow("src") {
		t.Error("the walk of the policy's own patterns is pruned wrongly")
	}
	if _, ok := c.Hide().Match("../.env"); ok {
		t.Error("a name outside of the workspace matches")
	}
	if got := len(c.Git().Entries()); got != 1 {
		t.Errorf("git: read has %d entries", got)
	}
}

// spellings returns other ways to write a name that mean the same to the kernel.
func spellings(rel string) []string {
	return []string{"./" + rel, rel + "/", rel + "/.", strings.ReplaceAll(rel, "/", "//"), strings.ReplaceAll(rel, "/", "/./")}
}

// cases returns the name in other letter case.
func cases(rel string) []string {
	if !utf8.ValidString(rel) {
		return nil // ToUpper would make other names of it
	}
	all := []string{strings.ToUpper(rel), strings.ToLower(rel), strings.ReplaceAll(rel, "s", "\u017f"), strings.ReplaceAll(rel, "k", "\u212a")}
	// Some letters have an upper case that is not a case variant (dotless i).
	return slices.DeleteFunc(all, func(s string) bool { return !strings.EqualFold(s, rel) })
}

// FuzzPathRule: what is refused is refused in every spelling, and so is
// everything below it.
func FuzzPathRule(f *testing.F) {
	for _, s := range []string{".git/hooks", "a/.env", ".husky", ".SSH/x", "secrets/k.pem", "docs", ".env.example", "x\xff", ".npmrc", "../a"} {
		f.Add(s, "secrets/**", "docs/[a-z]*")
	}
	f.Fuzz(func(t *testing.T, rel, hide, protect string) {
		p := contract.DefaultPolicy()
		p.Mode, p.Hide, p.Protect = contract.WorkspaceWrite, []string{hide}, []string{protect}
		c, err := Compile(p)
		if err != nil {
			c = mustCompile(t, `{"mode":"workspace-write"}`)
		}
		for _, op := range []Op{OpRead, OpWrite, OpList, OpExec} {
			v := c.PathRule(rel, op, FileUnknown)
			if v.Effect == contract.Allow || strings.HasPrefix(rel, "/") {
				continue
			}
			for _, other := range append(spellings(rel), cases(rel)...) {
				// The exceptions of .env.* are exact: another spelling of one is hidden.
				if v.Rule == "hide:**/.env.*" && exempt(other) {
					continue
				}
				if c.PathRule(other, op, FileUnknown).Effect == contract.Allow {
					t.Errorf("op %d: %q is refused (%s) and %q is not", op, rel, v.Rule, other)
				}
			}
			if !v.NeedsContent && c.PathRule(rel+"/below", op, FileUnknown).Effect == contract.Allow {
				t.Errorf("op %d: %q is refused (%s), something below it is not", op, rel, v.Rule)
			}
		}
	})
}

// One more rule that forbids never lets anything through that was refused.
func TestRulesOnlyForbid(t *testing.T) {
	patterns := []string{"a", "b/**", "**/*.x", "[a-c]", "B", "a/{b,c}", "*"}
	names := []string{"a", "A/b", "b/c/d.x", ".git/config", ".env", ".npmrc", "c", ".husky/x", "d"}
	rapid.Check(t, func(t *rapid.T) {
		pattern, name := rapid.SampledFrom(patterns), rapid.SampledFrom(names)
		p := contract.DefaultPolicy()
		p.Mode = rapid.SampledFrom([]contract.Mode{contract.ReadOnly, contract.WorkspaceWrite}).Draw(t, "mode")
		p.Protect = rapid.SliceOfNDistinct(pattern, 0, 3, rapid.ID).Draw(t, "protect")
		p.Hide = rapid.SliceOfNDistinct(pattern, 0, 3, rapid.ID).Draw(t, "hide")
		p.AllowShell = rapid.Bool().Draw(t, "shell")
		p.Gate.Default = rapid.SampledFrom([]contract.Effect{contract.Allow, contract.Ask, contract.Deny}).Draw(t, "default")
		for i := range rapid.IntRange(0, 3).Draw(t, "rules") {
			p.Gate.Rules = append(p.Gate.Rules, drawRule(t, i, []contract.Effect{contract.Allow, contract.Ask, contract.Deny}, pattern))
		}
		before, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		switch rapid.IntRange(0, 2).Draw(t, "what") {
		case 0:
			p.Protect = appendNew(p.Protect, pattern.Draw(t, "more"))
		case 1:
			p.Hide = appendNew(p.Hide, pattern.Draw(t, "more"))
		case 2:
			p.Gate.Rules = slices.Insert(slices.Clone(p.Gate.Rules), rapid.IntRange(0, len(p.Gate.Rules)).Draw(t, "at"),
				drawRule(t, 9, []contract.Effect{contract.Deny}, pattern))
		}
		after, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		r := Request{Call: drawCall(t, name), File: FileState(rapid.IntRange(0, 3).Draw(t, "state"))}
		if rapid.Bool().Draw(t, "resolves") {
			r.Resolved = name.Draw(t, "resolved")
		}
		strength := map[contract.Effect]int{contract.Allow: 0, contract.Ask: 1, contract.Deny: 2}
		if b, a := before.Decide(r), after.Decide(r); strength[a.Effect] < strength[b.Effect] {
			t.Fatalf("%+v became %+v by one more rule", b, a)
		}
	})
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(slices.Clone(list), s)
}

func drawRule(t *rapid.T, i int, effects []contract.Effect, pattern *rapid.Generator[string]) contract.GateRule {
	r := contract.GateRule{ID: "r" + string(rune('0'+i)), Effect: rapid.SampledFrom(effects).Draw(t, "effect")}
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		r.Tool = rapid.SampledFrom([]string{"read", "write", "exec"}).Draw(t, "tool")
		r.Path = pattern.Draw(t, "path")
	case 1:
		r.Argv = []string{rapid.SampledFrom([]string{"git", "go"}).Draw(t, "program")}
	case 2:
		r.Tool = rapid.SampledFrom([]string{"read", "write", "list", "exec", "status"}).Draw(t, "tool")
	}
	return r
}

func drawCall(t *rapid.T, name *rapid.Generator[string]) contract.ToolCall {
	switch rapid.IntRange(0, 4).Draw(t, "call") {
	case 0:
		return contract.ToolCall{Read: &contract.ReadCall{Path: name.Draw(t, "path")}}
	case 1:
		return contract.ToolCall{Write: &contract.WriteCall{Path: name.Draw(t, "path")}}
	case 2:
		return contract.ToolCall{List: &contract.ListCall{Path: name.Draw(t, "path")}}
	case 3:
		argv := rapid.SampledFrom([][]string{{"git", "push"}, {"go", "test"}, {"sh", "-c", "x"}, {"env", "git", "push"}}).Draw(t, "argv")
		return contract.ToolCall{Exec: &contract.ExecCall{Argv: argv, Cwd: name.Draw(t, "cwd")}}
	}
	return contract.ToolCall{Status: &contract.StatusCall{}}
}

// exempt reports whether a segment of name is one of the exact exceptions of the
// built-in rule for .env files.
func exempt(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(s string) bool {
		return slices.Contains([]string{".env.example", ".env.sample", ".env.template", ".env.dist"}, s)
	})
}
