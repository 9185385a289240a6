package policy

import (
	"errors"
	"testing"

	"realm.dev/contract"
)

func TestDecide(t *testing.T) {
	c := mustCompile(t, `{"mode":"workspace-write","limits":{"execMs":1000},"gate":{"default":"ask","rules":[
		{"id":"docs","effect":"allow","path":"docs/**"},
		{"id":"go","effect":"allow","argv":["go","test"]},
		{"id":"src","effect":"allow","tool":"exec","path":"src","argv":["make"]},
		{"id":"lock","effect":"ask","tool":"write","path":"**/go.sum"},
		{"id":"push","effect":"deny","argv":["git","push"]},
		{"id":"publish","effect":"deny","action":"publish"},
		{"id":"status","effect":"allow","tool":"status"},
		{"id":"host","effect":"deny","host":"*.a.example"}]}}`)
	shell := mustCompile(t, `{"allowShell":true}`)
	read := func(path string) contract.ToolCall { return contract.ToolCall{Read: &contract.ReadCall{Path: path}} }
	write := func(path string) contract.ToolCall { return contract.ToolCall{Write: &contract.WriteCall{Path: path}} }
	exec := func(cwd string, argv ...string) contract.ToolCall {
		return contract.ToolCall{Exec: &contract.ExecCall{Argv: argv, Cwd: cwd}}
	}
	script := contract.ToolCall{Exec: &contract.ExecCall{Shell: true, Script: "id"}}
	slow := exec("", "go", "test")
	slow.Exec.TimeoutMs = 1001
	tests := []struct {
		name string
		c    *Compiled
		r    Request
		want contract.Effect
		code contract.Code
		rule string
	}{
		{"no tool", c, Request{}, contract.Deny, contract.SchemaInvalid, "schema"},
		{"default", c, Request{Call: read("a")}, contract.Ask, "", "gate.default"},
		{"allowed path", c, Request{Call: read("docs/a")}, contract.Allow, "", "gate:docs"},
		{"allow is exact in case", c, Request{Call: read("DOCS/a")}, contract.Ask, "", "gate.default"},
		{"allow needs the resolved name too", c, Request{Call: read("docs/link"), Resolved: "src/a"}, contract.Ask, "", "gate.default"},
		{"resolved and given allowed", c, Request{Call: read("docs/link"), Resolved: "docs/a"}, contract.Allow, "", "gate:docs"},
		{"ask is stronger than allow", c, Request{Call: write("docs/go.sum")}, contract.Ask, "", "gate:lock"},
		{"ask in any case", c, Request{Call: write("docs/GO.SUM")}, contract.Ask, "", "gate:lock"},
		{"ask by the resolved name", c, Request{Call: write("docs/x"), Resolved: "docs/go.sum"}, contract.Ask, "", "gate:lock"},
		{"the path of an exec is not a file's", c, Request{Call: exec("docs", "ls")}, contract.Ask, "", "gate.default"},
		{"unless the rule says exec", c, Request{Call: exec("src", "make", "all")}, contract.Allow, "", "gate:src"},
		{"elsewhere", c, Request{Call: exec("", "make", "all")}, contract.Ask, "", "gate.default"},
		{"argv prefix", c, Request{Call: exec("", "go", "test", "./...")}, contract.Allow, "", "gate:go"},
		{"allow names one program", c, Request{Call: exec("", "./go", "test")}, contract.Ask, "", "gate.default"},
		{"allow is not for wrappers", c, Request{Call: exec("", "env", "go", "test")}, contract.Ask, "", "gate.default"},
		{"deny by argv", c, Request{Call: exec("", "git", "push", "origin")}, contract.Deny, contract.PermissionDenied, "gate:push"},
		{"deny by path of the program", c, Request{Call: exec("", "/usr/bin/git", "push")}, contract.Deny, contract.PermissionDenied, "gate:push"},
		{"deny behind a wrapper", c, Request{Call: exec("", "timeout", "9", "git", "push")}, contract.Deny, contract.PermissionDenied, "gate:push"},
		{"an argument is no program", c, Request{Call: exec("", "echo", "git", "push")}, contract.Ask, "", "gate.default"},
		{"deny by action", c, Request{Call: exec("", "go", "test"), Actions: []string{"publish"}}, contract.Deny, contract.PermissionDenied, "gate:publish"},
		{"status", c, Request{Call: contract.ToolCall{Status: &contract.StatusCall{}}}, contract.Allow, "", "gate:status"},
		{"stop", c, Request{Call: contract.ToolCall{Stop: &contract.StopCall{}}}, contract.Ask, "", "gate.default"},
		{"shell", c, Request{Call: script}, contract.Deny, contract.ShellNotAllowed, "allowShell"},
		{"argv that is a shell", c, Request{Call: exec("", "sh", "-c", "id")}, contract.Deny, contract.ShellNotAllowed, "allowShell"},
		{"shell allowed", shell, Request{Call: script}, contract.Allow, "", "gate.default"},
		{"argv shell allowed", shell, Request{Call: exec("", "sh")}, contract.Allow, "", "gate.default"},
		{"too long", c, Request{Call: slow}, contract.Deny, contract.LimitExceeded, "limits.execMs"},
		{"path before shell", c, Request{Call: exec(".ssh", "sh")}, contract.Deny, contract.PathRefused, "hide:.ssh"},
		{"a link into git", c, Request{Call: write("h/pre-commit"), Resolved: ".git/hooks/pre-commit"}, contract.Deny, contract.PathRefused, "git:read"},
		{"a hidden link", c, Request{Call: read("docs/l"), Resolved: "x/.env"}, contract.Deny, contract.PathRefused, "hide:**/.env"},
		{"the name itself is hidden", c, Request{Call: read(".env"), Resolved: "docs/a"}, contract.Deny, contract.PathRefused, "hide:**/.env"},
		{"a resolved name outside", c, Request{Call: read("docs/l"), Resolved: "../x"}, contract.Deny, contract.PathRefused, "path-escapes-root"},
		{"content not looked at", c, Request{Call: read("docs/.npmrc")}, contract.Deny, contract.PathRefused, "hide:**/.npmrc"},
		{"content without token", c, Request{Call: read("docs/.npmrc"), File: FilePlain}, contract.Allow, "", "gate:docs"},
	}
	for _, test := range tests {
		d := test.c.Decide(test.r)
		if d.Effect != test.want || d.Code != test.code || d.Rule != test.rule || d.Reason == "" {
			t.Errorf("%s: %+v, want %s, code %q, by %q", test.name, d, test.want, test.code, test.rule)
		}
		err := d.Err()
		switch test.want {
		case contract.Allow:
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
		case contract.Ask:
			if contract.CodeOf(err) != contract.PermissionUnavailable {
				t.Errorf("%s: %v", test.name, err)
			}
		case contract.Deny:
			if contract.CodeOf(err) != test.code {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	}
}

// The zero effect, or one that nobody knows, is a refusal.
func TestUnknownEffectDenies(t *testing.T) {
	for _, effect := range []contract.Effect{"", "ALLOW", contract.Deny} {
		if d := decided(effect, "r", "x"); d.Effect != contract.Deny || d.Code != contract.PermissionDenied {
			t.Errorf("%q: %+v", effect, d)
		}
	}
	if err := (Decision{}).Err(); contract.CodeOf(err) != contract.PermissionDenied {
		t.Error("the zero decision lets a call through")
	}
}

func TestWorkspace(t *testing.T) {
	h := Host{Home: "/home/u/", Forbidden: []string{"/home/u/.local/state/realm", "/home/u/.local/share/containers"}}
	for in, want := range map[string]string{
		"/home/u/repo": "/home/u/repo", "/home/u/repo/": "/home/u/repo", "/a//b/./c": "/a/b/c", "/root/x": "/root/x",
		"/tmp/w:/host:rw": "/tmp/w:/host:rw", "/tmp/w,destination=/": "/tmp/w,destination=", "/usr/src/app": "/usr/src/app",
		"/home/u/.local/state/realm2": "/home/u/.local/state/realm2", "/runner": "/runner", "/workspace": "/workspace",
	} {
		if got, err := Workspace(in, h); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{
		"", "repo", "./repo", "~/repo", "/", "//", "/etc", "/etc/", "/usr", "/var", "/home", "/root", "/tmp", "/proc", "/proc/1", "/sys/x",
		"/dev/shm", "/run/user/1000", "/var/run", "/var/run/x", "/root/..", "/a/../b", "/a\x00", "/a\nb", "/a\xff", "/" + string(make([]byte, 5000)),
		"/home/u", "/home/u/.local/state/realm", "/home/u/.local/state/realm/x", "/home/u/.local/state", "/home/u/.local/share/containers/storage",
	} {
		_, err := Workspace(in, h)
		if contract.CodeOf(err) != contract.SchemaInvalid {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestMountPath(t *testing.T) {
	h := Host{Home: "/home/u", Forbidden: []string{"/srv/state"}}
	for _, dir := range []string{"/opt/tool", "/usr/local/go", "/home/u/.cache/go", "/home/u/.npm", "/srv/data", "/data"} {
		if err := MountPath(dir, false, h); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
	}
	for _, dir := range []string{
		"", "opt", "/", "/opt/", "/opt/../etc", "/usr", "/home", "/home/u", "/home/other", "/etc", "/etc/x", "/run/x", "/var/run/docker.sock",
		"/tmp/x", "/home/u/.ssh", "/home/u/.config/gh/hosts.yml", "/home/u/.AWS", "/opt/x.sock", "/srv/state", "/srv/state/x", "/srv",
		"/home/u/.local/share/containers", "/var/lib/containers/storage", "/proc/1",
	} {
		if err := MountPath(dir, false, h); err == nil {
			t.Errorf("%q is mounted", dir)
		}
	}
	if MountPath("/usr/local/go", true, h) == nil || MountPath("/opt/tool", true, h) != nil {
		t.Error("the system is writable, or nothing is")
	}
	if e, ok := errors.AsType[*contract.Error](MountPath("/etc", false, h)); ok {
		t.Errorf("a phrase is wanted, not %v", e)
	}
}
