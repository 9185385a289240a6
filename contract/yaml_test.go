package contract

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const handwritten = `# a Go service: may edit and commit, fetch modules, reach one private database
mode: workspace-write
git: write
home: go
env: [CI]
egressAllow:
  - {host: modules.example.org, port: 443}
  - host: db.internal.example.org
    port: 5432
    private: true
limits: {memoryBytes: 4294967296, cpus: 4}
gate:
  rules:
    - {id: no-lockfile, effect: ask, tool: write, path: "**/go.sum"}
`

func TestYAMLPolicy(t *testing.T) {
	got, err := DecodeYAML([]byte(handwritten))
	if err != nil {
		t.Fatal(err)
	}
	want := DefaultPolicy()
	want.Mode, want.Git, want.Home, want.Env = WorkspaceWrite, GitWrite, "go", []string{"CI"}
	want.EgressAllow = []EgressEntry{
		{Host: "modules.example.org", Port: 443},
		{Host: "db.internal.example.org", Port: 5432, Private: true},
	}
	want.Limits.MemoryBytes, want.Limits.CPUs = 4<<30, 4
	want.Gate.Rules = []GateRule{{ID: "no-lockfile", Effect: Ask, Tool: "write", Path: "**/go.sum"}}
	want.Explicit = []string{
		"/egressAllow", "/env", "/gate", "/gate/rules", "/git", "/home", "/limits", "/limits/cpus", "/limits/memoryBytes", "/mode",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a scalar means follows the core schema of YAML 1.2.
func TestYAMLScalars(t *testing.T) {
	for text, want := range map[string]any{
		"env: [on]": "on", "env: [yes]": "yes", "env: [NO]": "NO", "env: [y]": "y", "env: [off]": "off", "env: ['true']": "true", `env: ["null"]`: "null",
	} {
		p, err := DecodeYAML([]byte(text))
		if err != nil || len(p.Env) != 1 || p.Env[0] != want {
			t.Errorf("%s: got %v, %v", text, p.Env, err)
		}
	}
	for text, want := range map[string]int64{
		"10": 10, "010": 10, "+10": 10, "0o17": 15, "0x1F": 31, "1e3": 1000, "10.0": 10, "10.": 10,
	} {
		p, err := DecodeYAML([]byte("toolQueueMs: " + text))
		if err != nil || p.ToolQueueMs != want {
			t.Errorf("%s: got %d, %v", text, p.ToolQueueMs, err)
		}
	}
	for text, want := range map[string]bool{"true": true, "True": true, "TRUE": true, "false": false} {
		p, err := DecodeYAML([]byte("allowShell: " + text))
		if err != nil || p.AllowShell != want {
			t.Errorf("%s: got %v, %v", text, p.AllowShell, err)
		}
	}
	if p, err := DecodeYAML([]byte("limits: {cpus: .5}")); err != nil || p.Limits.CPUs != 0.5 {
		t.Errorf(".5: got %v, %v", p.Limits.CPUs, err)
	}
}

func TestYAMLRefusals(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":            {"", "must be an object"},
		"comment only":     {"# nothing\n", "must be an object"},
		"scalar":           {"hello", "must be an object"},
		"anchor":           {"env: &e [CI]", "/env: anchors and aliases are not allowed"},
		"alias":            {"env: &e [CI]\nhide: *e", "/env: anchors and aliases are not allowed"},
		"unknown alias":    {"env: *SECRET", "is not YAML here"},
		"alias key":        {"*a : b", "is not YAML here"},
		"anchor on key":    {"&a mode: read-only", "anchors and aliases are not allowed"},
		"tag":              {"mode: !!str read-only", "/mode: tags are not allowed"},
		"own tag":          {"mode: !exec read-only", "/mode: tags are not allowed"},
		"binary":           {"mode: !!binary aGk=", "/mode: tags are not allowed"},
		"merge":            {"<<: {mode: read-only}", "unknown key (unprintable key)"},
		"twice":            {"mode: read-only\nmode: workspace-write", "/mode: key is given twice"},
		"twice, quoted":    {"mode: read-only\n\"mode\": workspace-write", "/mode: key is given twice"},
		"twice, deep":      {"gate: {rules: [{id: a, id: b}]}", "/gate/rules/0/id: key is given twice"},
		"number key":       {"1: a", "a key is not a string"},
		"bool key":         {"true: a", "a key is not a string"},
		"null key":         {"~: a", "a key is not a string"},
		"no key":           {"? \n: a", "a key is not a string"},
		"map key":          {"{a: b}: c", "a key is not a string"},
		"list key":         {"? [a]\n: c", "a key is not a string"},
		"documents":        {"mode: read-only\n---\nmode: read-only\n", "there is more than one document"},
		"second is broken": {"mode: read-only\n---\n\t[", "is not YAML here"},
		"nan":              {"limits: {cpus: .nan}", "/limits/cpus: number is not finite"},
		"inf":              {"limits: {cpus: .inf}", "/limits/cpus: number is not finite"},
		"minus inf":        {"limits: {cpus: -.INF}", "/limits/cpus: number is not finite"},
		"huge":             {"toolQueueMs: 1e400", "/toolQueueMs: number is out of range"},
		"huge exponent":    {"toolQueueMs: 1e1000000000", "/toolQueueMs: number is out of range"},
		"huge hex":         {"toolQueueMs: 0xFFFFFFFFFFFFFFFFFF", "/toolQueueMs: number is out of range"},
		"yes is no bool":   {"allowShell: yes", "/allowShell: must be a boolean"},
		"string port":      {"egressAllow: [{host: a.b, port: '443'}]", "/egressAllow/0/port: must be an integer"},
		"sexagesimal":      {"toolQueueMs: 1:30", "/toolQueueMs: must be an integer"},
		"underscore":       {"toolQueueMs: 1_000", "/toolQueueMs: must be an integer"},
		"date":             {"home: 2026-11-30", ""},
		"null list":        {"egressAllow:", "/egressAllow: must be an array"},
		"tab":              {"mode:\n\t- a", "is not YAML here"},
		"open":             {"env: [CI", "is not YAML here"},
		"surrogate":        {`home: "\ud800"`, "is not YAML here"},
		"bom":              {"\ufeffmode: read-only", "starts with a byte order mark"},
		"nul":              {"mode: read-only\x00", "holds a NUL byte"},
		"latin1":           {"home: caf\xe9", "is not UTF-8"},
		"control":          {"home: a\x01", "is not YAML here"},
		"deep":             {"env: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "/env" + strings.Repeat("/0", 63) + ": nests deeper than 64 levels"},
		"deeper":           {"env: " + strings.Repeat("[", 20000), "is not YAML here"},
		"unknown":          {"failOpen: true", "/failOpen: unknown key"},
		"case":             {"EgressAllow: []", "/EgressAllow: unknown key"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			_, err := DecodeYAML([]byte(c.text))
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			if _, got, _ := strings.Cut(asError(t, err).Error(), ": "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Every policy that is accepted as JSON means the same as YAML.
func TestYAMLReadsJSON(t *testing.T) {
	for _, data := range samples(t, "policy") {
		want, err := Decode[Policy](data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeYAML(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLocate(t *testing.T) {
	const jsonText = "{\n  \"mode\": \"é\",\n  \"limits\": {\"pids\": 0, \"cpus\": 1},\n  \"env\": [\"A\",\n    \"1\"], \"x\": 1\n}\n"
	const yamlText = "# é\nmode: é\nlimits: {pids: 0, cpus: 1}\nenv:\n  - A\n  - \"1\"\nx: 1\n"
	for name, c := range map[string]struct {
		text   string
		format Format
		want   map[string]Position
	}{
		"json": {jsonText, JSON, map[string]Position{
			"/mode": {2, 3}, "/limits/pids": {3, 14}, "/env/1": {5, 5}, "/x": {5, 11}, "": {1, 1}, "/gate/rules/0/id": {1, 1},
		}},
		"yaml": {yamlText, YAML, map[string]Position{
			"/mode": {2, 1}, "/limits/pids": {3, 10}, "/env/1": {6, 5}, "/x": {7, 1}, "": {1, 1}, "/limits/tmpBytes": {3, 1},
		}},
		"json syntax":   {"{\n \"mode\": ]", JSON, map[string]Position{"": {2, 10}}},
		"json twice":    {"{\"a\":1,\n \"a\":2}", JSON, map[string]Position{"/a": {2, 5}}},
		"json utf8":     {"{\n\"\xff\"", JSON, map[string]Position{"": {2, 2}}},
		"yaml syntax":   {"mode: read-only\nenv: [CI\nx: {", YAML, map[string]Position{"": {2, 1}}},
		"yaml scan":     {"mode: a\n\tenv: b", YAML, map[string]Position{"": {2, 1}}},
		"yaml twice":    {"mode: a\nenv: []\nmode: b", YAML, map[string]Position{"/mode": {3, 1}}},
		"yaml anchor":   {"mode: a\nenv: &x []", YAML, map[string]Position{"/env": {2, 6}}},
		"yaml two":      {"mode: read-only\n---\nmode: read-only", YAML, map[string]Position{"": {2, 1}}},
		"json bom":      {"\ufeff{}", JSON, map[string]Position{"": {1, 1}}},
		"escaped slash": {`{"a/b": 1}`, JSON, map[string]Position{"/a~1b": {1, 2}}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			at := Locate([]byte(c.text), c.format)
			for pointer, want := range c.want {
				if got := at.Of(Violation{Pointer: pointer}); got != want {
					t.Errorf("%q: got %v, want %v", pointer, got, want)
				}
			}
		})
	}
}

// Violations of a real decode are found in the file.
func TestLocateViolations(t *testing.T) {
	text := []byte("mode: read-only\negressAllow:\n  - host: a.example\n    port: 0\n  - port: 443\n")
	_, err := DecodeYAML(text)
	e, ok := errors.AsType[*Error](err)
	if !ok || len(e.Violations) != 2 {
		t.Fatalf("got %v", err)
	}
	at := Locate(text, YAML)
	var got []Position
	for _, v := range e.Violations {
		got = append(got, at.Of(v))
	}
	if diff := cmp.Diff([]Position{{4, 5}, {5, 5}}, got); diff != "" {
		t.Errorf("%v: %s", e, diff)
	}
}
