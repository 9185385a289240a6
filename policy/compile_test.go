package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
)

func TestCompileRefuses(t *testing.T) {
	rule := func(fields string) string { return `{"gate":{"rules":[{"id":"r",` + fields + `}]}}` }
	tests := []struct{ doc, pointer string }{
		{`{"git":"write"}`, "/git"},
		{`{"user":"root"}`, "/user"},
		{`{"image":"alpine"}`, "/image"},
		{`{"image":"library/alpine:3"}`, "/image"},
		{`{"image":"r.example/a@sha512:` + strings.Repeat("0", 128) + `"}`, "/image"},
		{`{"image":"r.example/a b"}`, "/image"},
		{`{"env":["REALM_X"]}`, "/env/0"},
		{`{"env":["A","realm_x"]}`, "/env/1"},
		{`{"env":["LD_PRELOAD"]}`, "/env/0"},
		{`{"env":["HOME"]}`, "/env/0"},
		{`{"env":["A","A"]}`, "/env/1"},
		{`{"mounts":[{"path":"/etc/ssl"}]}`, "/mounts/0/path"},
		{`{"mounts":[{"path":"/opt/a/"}]}`, "/mounts/0/path"},
		{`{"mounts":[{"path":"/opt/a"},{"path":"/opt/a","write":true}]}`, "/mounts/1"},
		{`{"mounts":[{"path":"/usr/local/go","write":true}]}`, "/mounts/0/path"},
		{`{"mounts":[{"path":"/home/u"}]}`, "/mounts/0/path"},
		{`{"mounts":[{"path":"/home/u/.ssh/keys"}]}`, "/mounts/0/path"},
		{`{"protect":["a","../b"]}`, "/protect/1"},
		{`{"protect":["**"]}`, "/protect/0"},
		{`{"hide":["{a,**}"]}`, "/hide/0"},
		{`{"hide":["a","a"]}`, "/hide/1"},
		{`{"hide":["/etc"]}`, "/hide/0"},
		{`{"unprotect":[".github"]}`, "/unprotect/0"},
		{`{"unprotect":[".HUSKY"]}`, "/unprotect/0"},
		{`{"unprotect":[".husky",".husky"]}`, "/unprotect/1"},
		{`{"egressAllow":[{"host":"a.example","port":1},{"host":"A.example.","port":1}]}`, "/egressAllow/1"},
		{`{"egressAllow":[{"host":"203.0.113.5","port":1,"sni":true}]}`, "/egressAllow/0/sni"},
		{`{"limits":{"execMs":604800001}}`, "/limits/execMs"},
		{`{"limits":{"cpus":0.001}}`, "/limits/cpus"},
		{`{"gate":{"holdMs":50000}}`, "/gate/holdMs"},
		{`{"gate":{"decisionMs":100,"holdMs":101}}`, "/gate/holdMs"},
		{`{"gate":{"rules":[{"id":"a","effect":"deny","tool":"read"},{"id":"a","effect":"ask","tool":"read"}]}}`, "/gate/rules/1/id"},
		{rule(`"effect":"deny"`), "/gate/rules/0"},
		{rule(`"effect":"deny","tool":"read","argv":["x"]`), "/gate/rules/0/tool"},
		{rule(`"effect":"deny","argv":["x"],"path":"a"`), "/gate/rules/0/path"},
		{rule(`"effect":"deny","tool":"stop","path":"a"`), "/gate/rules/0/path"},
		{rule(`"effect":"deny","path":"a//b"`), "/gate/rules/0/path"},
		{rule(`"effect":"deny","host":"*.com"`), "/gate/rules/0/host"},
		{rule(`"effect":"deny","host":"a.example","tool":"exec"`), "/gate/rules/0/host"},
		{rule(`"effect":"deny","action":"dance"`), "/gate/rules/0/action"},
		{rule(`"effect":"deny","argv":[""]`), "/gate/rules/0/argv"},
	}
	for _, test := range tests {
		if _, err := parsePolicy([]byte(test.doc)); !complainsAt(err, test.pointer) {
			t.Errorf("%s: want a violation at %s, got %v", test.doc, test.pointer, err)
		}
	}
}

func TestCompileAccepts(t *testing.T) {
	for _, doc := range []string{
		`{"mode":"workspace-write","git":"write","home":"go","env":["CI","SSH_AUTH_SOCK"]}`,
		`{"image":"r.example/a/b:1.2@sha256:` + strings.Repeat("0", 64) + `","user":"root"}`,
		`{"image":"localhost/mine"}`,
		`{"image":"localhost:5000/mine"}`,
		`{"mounts":[{"path":"/opt/a","write":true},{"path":"/opt/a/b"},{"path":"/usr/local/go"},{"path":"/home/u/.local/bin"},{"path":"/data/a:b,c d"}]}`,
		`{"protect":["docs/**","**/*.lock","{a,b}/c"],"hide":["secrets"],"unprotect":[".github/workflows"]}`,
		`{"egressAllow":[{"host":"a.example","port":1},{"host":"a.example","port":2},{"host":"*.a.example","port":1,"sni":true},{"host":"10.0.0.1","port":5432,"private":true}],"egressDefault":"ask"}`,
		`{"gate":{"default":"deny","unknown":"ask","rules":[{"id":"a","effect":"allow","tool":"exec","path":"**","argv":["go","test"]},{"id":"b","effect":"ask","action":"git-push"},{"id":"c","effect":"deny","host":"*.a.example"}]}}`,
	} {
		mustCompile(t, doc)
	}
}

// All violations come together, sorted, and none of them holds a value.
func TestCompileReportsAll(t *testing.T) {
	const secret = "hunter2"
	doc := `{"image":"` + secret + ` x","git":"write","env":["` + secret + `="],"mounts":[{"path":"/etc/` + secret + `"}],
		"protect":["/` + secret + `"],"unprotect":["` + secret + `"],"hide":["` + secret + `/"],
		"egressAllow":[{"host":"` + secret + `_","port":1}],
		"gate":{"rules":[{"id":"` + secret + `","effect":"deny","path":"../` + secret + `"},{"id":"b","effect":"deny","action":"` + secret + `"}]}}`
	_, err := parsePolicy([]byte(doc))
	if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, violationsOf(err)), secret) {
		t.Fatalf("no error, or one with a value in it: %v", err)
	}
	// The schema already refuses the name of the variable; what it lets through
	// is reported together.
	_, err = parsePolicy([]byte(strings.Replace(doc, `"`+secret+`="`, `"HOME"`, 1)))
	var got []string
	for _, v := range violationsOf(err) {
		got = append(got, v.Pointer)
	}
	want := []string{
		"/egressAllow/0/host", "/env/0", "/gate/rules/0/path", "/gate/rules/1/action", "/git", "/hide/0", "/image",
		"/mounts/0/path", "/protect/0", "/unprotect/0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pointers (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprintf("%v %+v", err, violationsOf(err)), secret) {
		t.Errorf("a value came back: %v", err)
	}
}

func TestCanonicalPolicy(t *testing.T) {
	c := mustCompile(t, `{"egressAllow":[{"host":"A.Example.","port":1},{"host":"2001:DB8:0::7","port":22},{"host":"*.B.example","port":2}]}`)
	var hosts []string
	for _, e := range c.Policy().EgressAllow {
		hosts = append(hosts, e.Host)
	}
	if diff := cmp.Diff([]string{"a.example", "2001:db8::7", "*.b.example"}, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	same := mustCompile(t, `{"egressAllow":[{"host":"a.example","port":1},{"host":"2001:db8::7","port":22},{"host":"*.b.example","port":2,"sni":false}]}`)
	if c.Digest() != same.Digest() {
		t.Error("two spellings of one policy have two digests")
	}
	if other := mustCompile(t, `{"egressAllow":[{"host":"a.example","port":2}]}`); c.Digest() == other.Digest() {
		t.Error("two policies have one digest")
	}
	p := c.Policy()
	p.EgressAllow[0].Host = "evil.example"
	if c.Policy().EgressAllow[0].Host != "a.example" {
		t.Error("the compiled policy can be changed from outside")
	}
}

func TestEnforceable(t *testing.T) {
	all := Features{
		Egress: true, EgressAsk: true, GateRules: true, GateUnknown: true, UserRoot: true,
		MemoryLimit: true, CPULimit: true, PidsLimit: true,
	}
	c := mustCompile(t, `{"egressAllow":[{"host":"a.example","port":1},{"host":"b.example","port":1}],"egressDefault":"ask",
		"image":"r.example/a","user":"root","limits":{"cpus":2},
		"gate":{"default":"deny","unknown":"ask","decisionMs":10,"holdMs":5,"rules":[{"id":"a","effect":"deny","tool":"read"}]}}`)
	if v := c.Enforceable(all); len(v) != 0 {
		t.Errorf("a build that can do all refuses %v", v)
	}
	var got []string
	for _, v := range c.Enforceable(Features{}) {
		got = append(got, v.Pointer)
	}
	want := []string{
		"/egressAllow/0", "/egressAllow/1", "/egressDefault", "/gate/decisionMs", "/gate/default", "/gate/holdMs",
		"/gate/rules/0", "/gate/unknown", "/limits/cpus", "/limits/memoryBytes", "/limits/pids", "/user",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pointers (-want +got):\n%s", diff)
	}
	if v := mustCompile(t, `{}`).Enforceable(Features{MemoryLimit: true, PidsLimit: true}); len(v) != 0 {
		t.Errorf("{} is refused by a build that enforces its limits: %v", v)
	}
}

// FuzzCompile: nothing panics, what is accepted is accepted again in its
// canonical form, and that form is stable. Broken documents are for the fuzz
// target of contract.Decode; here every value is odd.
func FuzzCompile(f *testing.F) {
	f.Add("host", "a.example", "**/*.go", "/opt/a", "CI", 443)
	f.Add("r.example/a:1", "*.A.example.", "{a,b}/**", "/usr/local/go", "LD_PRELOAD", 1)
	f.Add("localhost/a", "2001:DB8:0::7", "[!a]*", "/data/a:b", "a", 65535)
	f.Fuzz(func(t *testing.T, image, host, pattern, dir, env string, port int) {
		doc, err := json.Marshal(map[string]any{
			"image": image, "env": []string{env}, "mounts": []any{map[string]any{"path": dir}},
			"protect": []string{pattern}, "hide": []string{pattern},
			"egressAllow": []any{map[string]any{"host": host, "port": port}},
			"gate": map[string]any{"rules": []any{
				map[string]any{"id": "a", "effect": "allow", "path": pattern},
				map[string]any{"id": "b", "effect": "deny", "host": host},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := parsePolicy(doc)
		if err != nil {
			if code := contract.CodeOf(err); code != contract.SchemaInvalid && code != contract.LimitExceeded {
				t.Fatalf("code %s: %v", code, err)
			}
			return
		}
		text, err := json.Marshal(c.Policy())
		if err != nil {
			t.Fatal(err)
		}
		again, err := parsePolicy(text)
		if err != nil {
			t.Fatalf("the canonical form %s is refused: %v", text, err)
		}
		if again.Digest() != c.Digest() {
			t.Errorf("the canonical form %s has another digest", text)
		}
	})
}
