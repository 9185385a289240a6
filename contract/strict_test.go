package contract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// refusal decodes a tool call that must be refused, and returns the error's text.
func refusal(t *testing.T, data string) string {
	t.Helper()
	_, err := Decode[ToolCall]([]byte(data))
	if err == nil {
		t.Fatalf("accepted %.80q", data)
	}
	return asError(t, err).Error()
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("a", 70)
	for name, c := range map[string]struct{ data, want string }{
		"empty":            {``, `SCHEMA_INVALID: the document ends too early`},
		"space":            {" \n", `SCHEMA_INVALID: the document ends too early`},
		"cut":              {`{"read":{"path":"a`, `SCHEMA_INVALID: /read/path: the document ends too early`},
		"two":              {`{"status":{}}{"status":{}}`, `SCHEMA_INVALID: something follows the document`},
		"bom":              {"\ufeff{}", `SCHEMA_INVALID: starts with a byte order mark`},
		"nul":              {"{\"read\":{\"path\":\"a\x00b\"}}", `SCHEMA_INVALID: holds a NUL byte`},
		"utf8":             {"{\"read\":{\"path\":\"a\xff\"}}", `SCHEMA_INVALID: is not UTF-8`},
		"utf16 pair":       {`{"read":{"path":"\ud800\ud800"}}`, `SCHEMA_INVALID: /read/path: a string holds half of a surrogate pair`},
		"surrogate key":    {`{"\udfff":1}`, `SCHEMA_INVALID: a string holds half of a surrogate pair`},
		"surrogate at end": {`{"read":{"path":"\ud800`, `SCHEMA_INVALID: /read/path: a string holds half of a surrogate pair`},
		"escape":           {`{"read":{"path":"\x41"}}`, `SCHEMA_INVALID: /read/path: a string holds an unknown escape`},
		"short hex":        {`{"read":{"path":"\u00g0"}}`, `SCHEMA_INVALID: /read/path: a string holds an unknown escape`},
		"control":          {"{\"read\":{\"path\":\"a\nb\"}}", `SCHEMA_INVALID: /read/path: a string holds a raw control character`},
		"late control":     {"{\"read\":{\"path\":\"\\n\nb\"}}", `SCHEMA_INVALID: /read/path: a string holds a raw control character`},
		"twice":            {`{"read":{"path":"a","path":"b"}}`, `SCHEMA_INVALID: /read/path: key is given twice`},
		"twice, escaped":   {`{"read":{"path":"a","\u0070ath":"b"}}`, `SCHEMA_INVALID: /read/path: key is given twice`},
		"twice, deep":      {`{"read":{"x":[0,{"y":1,"y":2}]}}`, `SCHEMA_INVALID: /read/x/1/y: key is given twice`},
		"twice, hidden":    {`{"a/b":1,"a/b":2}`, `SCHEMA_INVALID: key is given twice (unprintable key)`},
		"dotless":          {`{"exec":{"\u017fhell":true,"\u017fcript":"id"}}`, `SCHEMA_INVALID: /exec: unknown key (unprintable key); /exec/argv: required key is missing`},
		"no quotes":        {`{read:{}}`, `SCHEMA_INVALID: is not JSON here`},
		"single quotes":    {`{'read':{}}`, `SCHEMA_INVALID: is not JSON here`},
		"comma":            {`{"status":{},}`, `SCHEMA_INVALID: is not JSON here`},
		"no colon":         {`{"status" {}}`, `SCHEMA_INVALID: /status: is not JSON here`},
		"word":             {`{"status":nul}`, `SCHEMA_INVALID: /status: is not JSON here`},
		"no tool":          {`{}`, `SCHEMA_INVALID: must not be empty`},
		"no form":          {`{"exec":{}}`, `SCHEMA_INVALID: /exec/argv: required key is missing`},
		"no type":          {`{"read":7}`, `SCHEMA_INVALID: /read: must be an object`},
		"no script":        {`{"exec":{"shell":true}}`, `SCHEMA_INVALID: /exec/script: required key is missing`},
		"both forms":       {`{"exec":{"argv":["a"],"shell":true,"script":"a"}}`, `SCHEMA_INVALID: /exec/argv: is not allowed here`},
		"shell 1":          {`{"exec":{"shell":1,"script":"a"}}`, `SCHEMA_INVALID: /exec/shell: must be a boolean`},
		"shell false":      {`{"exec":{"shell":false,"script":"a"}}`, `SCHEMA_INVALID: /exec/shell: must be true`},
		"no program":       {`{"exec":{"argv":[""]}}`, `SCHEMA_INVALID: /exec/argv/0: must not be empty`},
		"nul argument":     {`{"exec":{"argv":["a","b\u0000"]}}`, `SCHEMA_INVALID: /exec/argv/1: matches a forbidden form`},
		"nul script":       {`{"exec":{"shell":true,"script":"a\u0000"}}`, `SCHEMA_INVALID: /exec/script: matches a forbidden form`},
		"nul env":          {`{"exec":{"argv":["a"],"env":{"A":"\u0000"}}}`, `SCHEMA_INVALID: /exec/env/A: matches a forbidden form`},
		"nul cwd":          {`{"exec":{"argv":["a"],"cwd":"\u0000"}}`, `SCHEMA_INVALID: /exec/cwd: matches a forbidden form`},
		"env name":         {`{"exec":{"argv":["a"],"env":{"1A":"x"}}}`, `SCHEMA_INVALID: /exec/env/1A: unknown key`},
		"env ours":         {`{"exec":{"argv":["a"],"env":{"REALM_TOKEN":"x"}}}`, `SCHEMA_INVALID: /exec/env/REALM_TOKEN: is not allowed here`},
		"env hidden":       {`{"exec":{"argv":["a"],"env":{"A=B":"x"}}}`, `SCHEMA_INVALID: /exec/env: unknown key (unprintable key)`},
		"env beside argv":  {`{"exec":{"argv":["a","b"],"cwd":"c","env":{"REALM_TOKEN":"x","B":"y"},"stdin":"","tty":true}}`, `SCHEMA_INVALID: /exec/env/REALM_TOKEN: is not allowed here`},
		"env type":         {`{"exec":{"argv":["a"],"env":{"A":1}}}`, `SCHEMA_INVALID: /exec/env/A: must be a string`},
		"timeout 0":        {`{"exec":{"argv":["a"],"timeoutMs":0}}`, `SCHEMA_INVALID: /exec/timeoutMs: is below 1`},
		"timeout too long": {`{"exec":{"argv":["a"],"timeoutMs":9223372036855}}`, `SCHEMA_INVALID: /exec/timeoutMs: is above 9223372036854`},
		"encoding":         {`{"write":{"path":"a","content":"","encoding":"hex"}}`, `SCHEMA_INVALID: /write/encoding: must be one of "utf8", "base64"`},
		"base64":           {`{"write":{"path":"a","content":"aGk","encoding":"base64"}}`, `SCHEMA_INVALID: /write/content: is not base64`},
		"base64 lines":     {`{"write":{"path":"a","content":"aG\nk=","encoding":"base64"}}`, `SCHEMA_INVALID: /write/content: is not base64`},
		"base64 bits":      {`{"write":{"path":"a","content":"aGl=","encoding":"base64"}}`, `SCHEMA_INVALID: /write/content: is not base64`},
		"stdin base64":     {`{"exec":{"argv":["a"],"stdin":"!","stdinEncoding":"base64"}}`, `SCHEMA_INVALID: /exec/stdin: is not base64`},
		"long key":         {`{"read":{"path":"a","` + long + `":1}}`, `SCHEMA_INVALID: /read: unknown key (unprintable key)`},
		"slash key":        {`{"read":{"path":"a","a/b~c":1}}`, `SCHEMA_INVALID: /read: unknown key (unprintable key)`},
		"empty key":        {`{"read":{"path":"a","":1}}`, `SCHEMA_INVALID: /read: unknown key (unprintable key)`},
		"together":         {`{"write":{"Path":1,"encoding":1,"createOnly":"yes"}}`, `SCHEMA_INVALID: /write/Path: unknown key; /write/content: required key is missing; /write/createOnly: must be a boolean; /write/encoding: must be a string; /write/path: required key is missing`},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if diff := cmp.Diff(c.want, refusal(t, c.data)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNumbers(t *testing.T) {
	accepted := map[string]int64{
		"10": 10, "10.0": 10, "1e3": 1000, "1E+3": 1000, "10000e-1": 1000, "1.5e1": 15, "1048576": 1048576, "1.048576e6": 1048576,
		"100.000000000000000000000000000000000000000000000000": 100,
	}
	for literal, want := range accepted {
		call, err := Decode[ToolCall]([]byte(`{"read":{"path":"a","maxBytes":` + literal + `}}`))
		if err != nil {
			t.Errorf("%s is refused: %v", literal, err)
		} else if call.Read.MaxBytes != want {
			t.Errorf("%s is %d", literal, call.Read.MaxBytes)
		}
	}
	refused := map[string]string{
		"0": "is below 1", "-0": "is below 1", "-0.0": "is below 1", "-1": "is below 1", "1.5": "must be an integer", `"10"`: "must be an integer",
		"1048577": "is above 1048576", "18446744073709551617": "is above 1048576", "1e20": "is above 1048576",
		"1.0000000000000000000000000000000000000000000000000000001": "must be an integer",
		"1e400": ruleNumber, "-1e400": ruleNumber, "1e-401": ruleNumber, "1e1000000000": ruleNumber, "1e-1000000000": ruleNumber,
		"0e1000000000": ruleNumber, "1e99999999999999999999999999": ruleNumber, strings.Repeat("9", 65): ruleNumber, "0." + strings.Repeat("0", 70): ruleNumber,
		"01": ruleLiteral, "00": ruleLiteral, "+1": ruleLiteral, "1.": ruleLiteral, ".5": ruleLiteral, "1e": ruleLiteral, "1e+": ruleLiteral, "-": ruleLiteral, "1.e1": ruleLiteral,
		"0x10": ruleLiteral, "1_000": ruleLiteral, "NaN": ruleSyntax, "Infinity": ruleSyntax, "-Infinity": ruleLiteral,
	}
	for literal, rule := range refused {
		if got, want := refusal(t, `{"read":{"path":"a","maxBytes":`+literal+`}}`), "SCHEMA_INVALID: /read/maxBytes: "+rule; got != want {
			t.Errorf("%s: got %q, want %q", literal, got, want)
		}
	}
}

func TestSizesReadAsLimits(t *testing.T) {
	exec := func(key, value string) string { return `{"exec":{"argv":["a"],"` + key + `":` + value + `}}` }
	repeat := strings.Repeat
	for name, c := range map[string]struct{ data, pointer string }{
		"body":            {`"` + repeat("a", MaxCallBytes) + `"`, ""},
		"depth":           {`{"read":` + repeat("[", 100), "/read" + repeat("/0", 63)},
		"values":          {`{"read":[` + repeat("0,", MaxValues) + `0]}`, "/read/262142"},
		"path":            {`{"read":{"path":"` + repeat("a", 4097) + `"}}`, "/read/path"},
		"path in bytes":   {`{"read":{"path":"` + repeat("é", 2049) + `"}}`, "/read/path"},
		"list in bytes":   {`{"list":{"path":"` + repeat("é", 2049) + `"}}`, "/list/path"},
		"cwd in bytes":    {exec("cwd", `"`+repeat("é", 2049)+`"`), "/exec/cwd"},
		"content":         {`{"write":{"path":"a","content":"` + repeat("a", MaxContentBytes+1) + `"}}`, "/write/content"},
		"base64 content":  {`{"write":{"path":"a","encoding":"base64","content":"` + repeat("aaaa", MaxContentBytes/3+1) + `"}}`, "/write/content"},
		"stdin":           {exec("stdin", `"`+repeat("a", MaxContentBytes+1)+`"`), "/exec/stdin"},
		"script":          {`{"exec":{"shell":true,"script":"` + repeat("a", MaxScriptBytes+1) + `"}}`, "/exec/script"},
		"script in bytes": {`{"exec":{"shell":true,"script":"` + repeat("é", MaxScriptBytes/2+1) + `"}}`, "/exec/script"},
		"argument":        {`{"exec":{"argv":["a","` + repeat("é", MaxArgBytes/2+1) + `"]}}`, "/exec/argv/1"},
		"arguments":       {`{"exec":{"argv":["a"` + repeat(`,"a"`, 4096) + `]}}`, "/exec/argv"},
		"env value":       {exec("env", `{"A":"`+repeat("é", MaxArgBytes/2+1)+`"}`), "/exec/env/A"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			_, err := Decode[ToolCall]([]byte(c.data))
			if err == nil {
				t.Fatal("accepted")
			}
			e := asError(t, err)
			if e.Code != LimitExceeded || len(e.Violations) != 1 || e.Violations[0].Pointer != c.pointer {
				t.Errorf("got %v, want LIMIT_EXCEEDED at %q", e, c.pointer)
			}
		})
	}
	for name, data := range map[string]string{
		"path":     `{"read":{"path":"` + repeat("a", 4096) + `"}}`,
		"content":  `{"write":{"path":"a","content":"` + repeat("a", MaxContentBytes) + `"}}`,
		"base64":   `{"write":{"path":"a","encoding":"base64","content":"` + repeat("aaaa", MaxContentBytes/3) + `"}}`,
		"script":   `{"exec":{"shell":true,"script":"` + repeat("a", MaxScriptBytes) + `"}}`,
		"argument": `{"exec":{"argv":["` + repeat("a", MaxArgBytes) + `"]}}`,
		"argv":     `{"exec":{"argv":["a"` + repeat(`,"a"`, 4095) + `]}}`,
	} {
		if _, err := Decode[ToolCall]([]byte(data)); err != nil {
			t.Errorf("%s at its limit: %v", name, err)
		}
	}
}

// A size beside another violation is not the reason alone.
func TestMixedViolationsAreInvalid(t *testing.T) {
	got := refusal(t, `{"read":{"path":"`+strings.Repeat("a", 4097)+`","x":1}}`)
	if want := "SCHEMA_INVALID: /read/path: has more than 4096 characters; /read/x: unknown key"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestManyUnknownKeysAreCounted(t *testing.T) {
	data := generator{Gen: "keys", Count: 1000, Prefix: `{"read":{"path":"a"`, Suffix: `}}`}.document()
	_, err := Decode[ToolCall]([]byte(data))
	e := asError(t, err)
	if len(e.Violations) != MaxViolations || e.More != 1000-MaxViolations || e.Violations[0].Pointer != "/read/k0" {
		t.Errorf("got %d violations and %d more, the first %v", len(e.Violations), e.More, e.Violations[0])
	}
}

func TestNULIsDataInContentAndStdin(t *testing.T) {
	write, err := Decode[ToolCall]([]byte(`{"write":{"path":"a","content":"a\u0000b"}}`))
	if err != nil || write.Write.Content != "a\x00b" {
		t.Errorf("got %v, %v", write.Write, err)
	}
	exec, err := Decode[ToolCall]([]byte(`{"exec":{"argv":["a"],"stdin":"\u0000"}}`))
	if err != nil || exec.Exec.Stdin != "\x00" {
		t.Errorf("got %v, %v", exec.Exec, err)
	}
}

func TestEscapesAreDecoded(t *testing.T) {
	const data = `{"write":{"path":"a","content":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00 é😀"}}`
	call, err := Decode[ToolCall]([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\"\\/\b\f\n\r\tAé😀 é😀"; call.Write.Content != want {
		t.Errorf("got %q, want %q", call.Write.Content, want)
	}
}

func TestDecodedValueDoesNotAliasInput(t *testing.T) {
	data := []byte(`{"read":{"path":"a.txt"}}`)
	call, err := Decode[ToolCall](data)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'x'
	}
	if call.Read.Path != "a.txt" {
		t.Errorf("the path became %q", call.Read.Path)
	}
}

func TestRecordReads(t *testing.T) {
	const base = `"realmId":"r","sessionId":"s","workspaceRoot":"/w","controlSocketPath":"/run/s"`
	for name, c := range map[string]struct {
		data string
		want string
	}{
		"absent":         {`{` + base + `,"state":"pending"}`, ""},
		"null":           {`{` + base + `,"state":"pending","containerId":null}`, ""},
		"string":         {`{` + base + `,"state":"ready","containerId":"c1"}`, ""},
		"token":          {`{` + base + `,"state":"ready","token":"x"}`, "/token: unknown key"},
		"env":            {`{` + base + `,"state":"ready","env":{}}`, "/env: unknown key"},
		"version":        {`{` + base + `,"state":"ready","schemaVersion":1}`, "/schemaVersion: unknown key"},
		"state":          {`{` + base + `,"state":"running"}`, `/state: must be one of "pending", "starting", "ready", "stopping", "stopped", "failed"`},
		"no id":          {`{"realmId":"r","workspaceRoot":"/w","controlSocketPath":"/run/s","state":"ready"}`, "/sessionId: required key is missing"},
		"id with slash":  {`{"realmId":"../r","sessionId":"s","workspaceRoot":"/w","controlSocketPath":"/run/s","state":"ready"}`, "/realmId: does not have the required form"},
		"id with line":   {`{"realmId":"r\n","sessionId":"s","workspaceRoot":"/w","controlSocketPath":"/run/s","state":"ready"}`, "/realmId: does not have the required form"},
		"relative":       {`{"realmId":"r","sessionId":"s","workspaceRoot":"w","controlSocketPath":"/run/s","state":"ready"}`, "/workspaceRoot: does not have the required form"},
		"socket too far": {`{"realmId":"r","sessionId":"s","workspaceRoot":"/w","controlSocketPath":"/` + strings.Repeat("é", 54) + `","state":"ready"}`, "/controlSocketPath: has more than 107 bytes"},
		"torn":           {`{` + base + `,"state":"re`, "/state: the document ends too early"},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			_, err := Decode[SessionRecord]([]byte(c.data))
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

func TestFrameBodiesMatchTheirType(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"no body":      {`{"seq":1,"type":"cancel"}`, "/cancel: required key is missing"},
		"other body":   {`{"seq":1,"type":"cancel","cancel":{"callId":"c"},"resize":{"callId":"c","rows":1,"cols":1}}`, "/resize: is not allowed here"},
		"unknown type": {`{"seq":1,"type":"attach"}`, `/type: must be one of "hello", "record", "call", "output", "result", "stdin", "resize", "signal", "cancel", "approval", "decision", "egress", "event", "error"`},
		"no type":      {`{"seq":1}`, "/type: required key is missing"},
		"no seq":       {`{"type":"cancel","cancel":{"callId":"c"}}`, "/seq: required key is missing"},
		"seq 0":        {`{"seq":0,"type":"cancel","cancel":{"callId":"c"}}`, "/seq: is below 1"},
		"deep":         {`{"seq":1,"type":"call","call":{"callId":"c","call":{"exec":{}}}}`, "/call/call/exec/argv: required key is missing"},
		"deep size":    {`{"seq":1,"type":"call","call":{"callId":"c","call":{"read":{"path":"` + strings.Repeat("é", 2049) + `"}}}}`, "/call/call/read/path: has more than 4096 bytes"},
		"call id":      {`{"seq":1,"type":"cancel","cancel":{"callId":"a b"}}`, "/cancel/callId: does not have the required form"},
		"signal":       {`{"seq":1,"type":"signal","signal":{"callId":"c","signal":"9"}}`, `/signal/signal: must be one of "SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGTSTP", "SIGSTOP", "SIGCONT"`},
		"egress":       {`{"seq":1,"type":"egress","egress":{}}`, "/egress: must not be empty"},
		"event":        {`{"seq":1,"type":"event","event":{"gap":{"from":1,"to":2},"entry":{}}}`, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			_, err := Decode[Frame]([]byte(c.data))
			if err == nil {
				t.Fatal("accepted")
			}
			if _, got, _ := strings.Cut(asError(t, err).Error(), ": "); c.want != "" && got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestResultsTellOneStory(t *testing.T) {
	const out = `"stdout":{"head":"","encoding":"utf8","bytes":0,"truncated":false},"stderr":{"head":"","encoding":"utf8","bytes":0,"truncated":false},"durationMs":1`
	for name, c := range map[string]struct{ data, want string }{
		"nothing":        {`{"callId":"c"}`, "must have at least 2 keys"},
		"two":            {`{"callId":"c","write":{"sha256":"` + FirstPrev + `","sizeBytes":1,"created":true},"read":{"content":"","encoding":"utf8","sizeBytes":0,"truncated":false,"sha256":null}}`, "has more than 2 keys"},
		"error and list": {`{"callId":"c","error":{"code":"INTERNAL","reason":"x"},"list":{"entries":[],"truncated":false}}`, "/list: is not allowed here"},
		"guessed":        {`{"callId":"c","exec":{"outcome":"lost","exitCode":1,` + out + `}}`, "/exec/exitCode: must be null"},
		"exited unknown": {`{"callId":"c","exec":{"outcome":"exited","exitCode":null,` + out + `}}`, "/exec/exitCode: must be an integer"},
		"code":           {`{"callId":"c","error":{"code":"OOPS","reason":"x"}}`, ""},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			_, err := Decode[ToolResult]([]byte(c.data))
			if err == nil {
				t.Fatal("accepted")
			}
			if _, got, _ := strings.Cut(asError(t, err).Error(), ": "); c.want != "" && got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if _, err := Decode[ToolResult]([]byte(`{"callId":"c","exec":{"outcome":"timeout","exitCode":null,` + out + `},"error":{"code":"EXEC_TIMEOUT","reason":"x"}}`)); err != nil {
		t.Error(err)
	}
}
