package contract

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// seed gives a fuzz target the samples and the cases.
func seed(f *testing.F, name string) {
	f.Helper()
	for _, data := range samples(f, name) {
		f.Add(data)
	}
	type anyCase struct {
		Input struct {
			Raw *string `json:"raw"`
		}
	}
	for _, file := range []string{"envelopes.json", "policy.json"} {
		for _, c := range readCases[anyCase](f, file) {
			if c.Input.Raw != nil {
				f.Add([]byte(*c.Input.Raw))
			}
		}
	}
}

// fuzzDecode asserts of any bytes: accepted, encoded and accepted again with the
// same value; or refused with one bounded error of ours.
func fuzzDecode[T Document](f *testing.F, name string) {
	seed(f, name)
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := again[T](t, data); err != nil {
			bounded(t, err)
		}
	})
}

func bounded(t *testing.T, err error) {
	t.Helper()
	e := asError(t, err)
	if len(e.Violations) == 0 {
		t.Errorf("no violation: %v", e)
	}
	text := e.Error()
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x9b }) {
		t.Errorf("the text is not fit for a terminal: %q", text)
	}
	for _, v := range e.Violations {
		if len(v.Rule) > 256 || len(v.Pointer) > 65*MaxDepth {
			t.Errorf("not bounded: %v", v)
		}
	}
}

func FuzzDecodeToolCall(f *testing.F) { fuzzDecode[ToolCall](f, "tool-call") }
func FuzzDecodePolicy(f *testing.F)   { fuzzDecode[Policy](f, "policy") }
func FuzzDecodeRecord(f *testing.F)   { fuzzDecode[SessionRecord](f, "session-record") }
func FuzzDecodeFrame(f *testing.F)    { fuzzDecode[Frame](f, "control-message") }

// FuzzDecodeYAML: what is accepted means the same when it is written as JSON.
func FuzzDecodeYAML(f *testing.F) {
	seed(f, "policy")
	f.Add([]byte(handwritten))
	f.Add([]byte("env: [on, yes, 'NO']\nlimits: {cpus: .5, pids: 0x10}\ntoolQueueMs: 0o17\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodeYAML(data)
		at := Locate(data, YAML).Of(Violation{})
		if at.Line < 1 || at.Column < 1 {
			t.Errorf("position %v", at)
		}
		if err != nil {
			bounded(t, err)
			return
		}
		encoded, err := Encode(p)
		if err != nil {
			t.Fatalf("accepted, but not encoded: %v", err)
		}
		q, err := Decode[Policy](encoded)
		if err != nil {
			t.Fatalf("encoded, but not accepted: %v", err)
		}
		if diff := cmp.Diff(forget(p), forget(q)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// pathAllowed says the path rule without regular expressions: what a person
// would write from the words of the design.
func pathAllowed(path string) bool {
	if path == "" || len(path) > MaxPathBytes || strings.Contains(path, "\x00") {
		return false
	}
	if path[0] == '/' || path[0] == '\\' {
		return false
	}
	letter := path[0]|0x20 >= 'a' && path[0]|0x20 <= 'z'
	if letter && len(path) > 1 && path[1] == ':' {
		return false
	}
	for _, segment := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == ".." {
			return false
		}
	}
	return true
}

// FuzzPathRule: the schema and the predicate agree on every path.
func FuzzPathRule(f *testing.F) {
	type pathCase struct{ Input struct{ Path string } }
	for _, c := range readCases[pathCase](f, "paths.json") {
		f.Add(c.Input.Path)
	}
	for _, path := range []string{"..\n", "\n..", "a\n/../b", "a/..\n", "..\u2028", "A:", "Å:", "@:", "[:", "a/...", strings.Repeat("a", 4097), strings.Repeat("é", 2049)} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if !utf8.ValidString(path) {
			return
		}
		data, err := json.Marshal(map[string]any{"read": map[string]any{"path": path}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Decode[ToolCall](data)
		if got := err == nil; got != pathAllowed(path) {
			t.Errorf("%q: accepted is %v: %v", path, got, err)
		}
	})
}
