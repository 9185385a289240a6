package contract

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func validRecord() SessionRecord {
	return SessionRecord{RealmID: "r1", SessionID: "s1", WorkspaceRoot: "/w", State: Pending, ControlSocketPath: "/run/s1.sock"}
}

func TestEncodeWritesEveryKey(t *testing.T) {
	got, err := Encode(validRecord())
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"realmId":"r1","sessionId":"s1","workspaceRoot":"/w","state":"pending","controlSocketPath":"/run/s1.sock","containerId":null}`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}

// A detail of which nothing is known yet is a document, and its lists are [],
// also when it is written by the standard library inside something else.
func TestEmptyDetailIsWritten(t *testing.T) {
	d := SessionDetail{
		Record: validRecord(), CreatedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.FixedZone("", 3600)), Mode: ReadOnly, Git: GitRead,
		Engine: &EngineInfo{Podman: "5.8.8"}, Egress: "none",
	}
	data, err := Encode(ToolResult{CallID: "c1", Status: &d})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "null,\"probes\"") || !strings.Contains(string(data), `"conditions":[],"probes":[],"limits":[]`) {
		t.Errorf("got %s", data)
	}
	if !strings.Contains(string(data), `"knownHoles":[]`) {
		t.Errorf("got %s", data)
	}
	back, err := Decode[ToolResult](data)
	if err != nil {
		t.Fatal(err)
	}
	if !back.Status.CreatedAt.Equal(d.CreatedAt) || back.Status.CreatedAt.Location() != time.UTC {
		t.Errorf("the time came back as %v", back.Status.CreatedAt)
	}
	if d.Conditions != nil || d.Engine.KnownHoles != nil {
		t.Error("the value itself was changed")
	}
	plain, err := json.Marshal([]*ListResult{{}})
	if err != nil || string(plain) != `[{"entries":[],"truncated":false}]` {
		t.Errorf("got %s, %v", plain, err)
	}
}

func TestEncodeKeepsText(t *testing.T) {
	const text = "<a href='x'>&\u2028\ufffd\x00"
	data, err := Encode(ToolCall{Write: &WriteCall{Path: "a", Content: text}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(data), "<a href='x'>&") {
		t.Errorf("got %s", data)
	}
	back, err := Decode[ToolCall](data)
	if err != nil || back.Write.Content != text {
		t.Errorf("got %q, %v", back.Write.Content, err)
	}
}

// Encode refuses what Decode would refuse, by the same pointers.
func TestEncodeRefuses(t *testing.T) {
	bad := "caf\xe9"
	for name, c := range map[string]struct {
		call ToolCall
		want string
	}{
		"nothing":    {ToolCall{}, "must not be empty"},
		"two":        {ToolCall{Status: &StatusCall{}, Stop: &StopCall{}}, "has more than one key"},
		"path":       {ToolCall{Read: &ReadCall{Path: "../x"}}, "/read/path: matches a forbidden form"},
		"no form":    {ToolCall{Exec: &ExecCall{}}, "/exec/argv: required key is missing"},
		"text":       {ToolCall{Read: &ReadCall{Path: bad}}, "/read/path: is not UTF-8"},
		"argument":   {ToolCall{Exec: &ExecCall{Argv: []string{"ls", bad}}}, "/exec/argv/1: is not UTF-8"},
		"env value":  {ToolCall{Exec: &ExecCall{Argv: []string{"ls"}, Env: map[string]string{"A": bad}}}, "/exec/env/A: is not UTF-8"},
		"env name":   {ToolCall{Exec: &ExecCall{Argv: []string{"ls"}, Env: map[string]string{bad: "a"}}}, "/exec/env: is not UTF-8"},
		"size":       {ToolCall{Exec: &ExecCall{Shell: true, Script: strings.Repeat("é", MaxScriptBytes/2+1)}}, "/exec/script: has more than 1 MiB"},
		"whole size": {ToolCall{Write: &WriteCall{Path: "a", Content: strings.Repeat("\x01", MaxCallBytes/6)}}, "the document is larger than allowed"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			data, err := Encode(c.call)
			if err == nil {
				t.Fatalf("wrote %.100s", data)
			}
			if _, got, _ := strings.Cut(asError(t, err).Error(), ": "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if _, err := Encode(AuditEntry{}); CodeOf(err) != SchemaInvalid {
		t.Errorf("an empty entry: %v", err)
	}
}

func TestDefaultPolicyIsTheDesigns(t *testing.T) {
	want := Policy{
		Mode: ReadOnly, Image: "host", Home: "ephemeral", Mounts: []Mount{}, Git: GitRead, User: UserAgent,
		EgressAllow: []EgressEntry{}, EgressDefault: Deny, Protect: []string{}, Unprotect: []string{}, Hide: []string{}, Env: []string{},
		Limits: Limits{
			MemoryBytes: 2 << 30, CPUs: 2, Pids: 512, OpenFiles: 4096, TmpBytes: 512 << 20, OutputBytes: 1 << 20, ExecMs: 600000,
		},
		StartupBudgetMs: 10000, ToolQueueMs: 2000,
		Gate: Gate{Default: Allow, Rules: []GateRule{}, DecisionMs: 50000, HoldMs: 250},
	}
	if diff := cmp.Diff(want, DefaultPolicy()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExplicitTellsWhatWasGiven(t *testing.T) {
	p, err := Decode[Policy]([]byte(`{"limits":{"cpus":2},"mode":"read-only","gate":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]bool{
		"/limits": true, "/limits/cpus": true, "/mode": true, "/gate": true, "/limits/pids": false, "/image": false, "": false,
	} {
		if p.IsExplicit(pointer) != want {
			t.Errorf("%q: explicit is %v", pointer, !want)
		}
	}
}

// Defaults must not be shared between policies.
func TestDefaultsAreFresh(t *testing.T) {
	p := DefaultPolicy()
	p.Env = append(p.Env, "A")
	p.Gate.Rules = append(p.Gate.Rules, GateRule{ID: "x"})
	if q := DefaultPolicy(); len(q.Env) != 0 || len(q.Gate.Rules) != 0 {
		t.Errorf("got %v", q)
	}
	for _, key := range []string{"limits", "gate"} {
		if d, ok := (*policyDocument.schema().Properties[key].Default).(map[string]any); !ok || len(d) != 0 {
			t.Errorf("the schema's own default of %s was filled: %v", key, d)
		}
	}
}

func TestResponsePresence(t *testing.T) {
	const meta = `"this_call_vetoable":false,"meta":{"agent":"a","native_event":"e","integration_mode":"in_process","primary_gate_present":true,"passthrough":{"n":12345678901234567890}}`
	for response, want := range map[string]bool{``: false, `"response":null,`: true, `"response":[1.50],`: true} {
		data := `{"schema_version":1,"event":"post_tool","tool":null,"input":{"a":null},` + response + meta + `}`
		e, err := Decode[ToolCallEvent]([]byte(data))
		if err != nil {
			t.Fatal(err)
		}
		if (e.Response != nil) != want {
			t.Errorf("%q: present is %v", response, e.Response != nil)
		}
		back, err := Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if string(back) != data {
			t.Errorf("not verbatim:\n%s\n%s", data, back)
		}
	}
}

func TestDecodeContent(t *testing.T) {
	for in, want := range map[[2]string]string{{"aGk=", Base64}: "hi", {"aGk=", UTF8}: "aGk=", {"aGk=", ""}: "aGk=", {"", Base64}: ""} {
		if got, err := DecodeContent(in[0], in[1]); err != nil || string(got) != want {
			t.Errorf("%v: got %q, %v", in, got, err)
		}
	}
	if _, err := DecodeContent("aGk", Base64); CodeOf(err) != SchemaInvalid {
		t.Errorf("got %v", err)
	}
}
