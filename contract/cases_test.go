package contract

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The cases under testdata/cases are inputs with their right outcomes. A raw
// document is given as text, as base64, or by a generator.

type generator struct {
	Gen, Open, Close, Inner, Prefix, Suffix, Fill string
	Depth, Count                                  int
}

func (g generator) document() string {
	switch g.Gen {
	case "nest":
		return g.Prefix + strings.Repeat(g.Open, g.Depth) + g.Inner + strings.Repeat(g.Close, g.Depth) + g.Suffix
	case "pad":
		return g.Prefix + strings.Repeat(g.Fill, g.Count) + g.Suffix
	case "keys":
		var b strings.Builder
		b.WriteString(g.Prefix)
		for i := range g.Count {
			b.WriteString(`,"k` + strconv.Itoa(i) + `":0`)
		}
		b.WriteString(g.Suffix)
		return b.String()
	}
	panic("unknown generator " + g.Gen)
}

type rawInput struct {
	Raw    *string    `json:"raw"`
	RawB64 *string    `json:"raw_b64"`
	RawGen *generator `json:"raw_gen"`
}

func (in rawInput) document(t *testing.T) []byte {
	t.Helper()
	switch {
	case in.Raw != nil:
		return []byte(*in.Raw)
	case in.RawB64 != nil:
		data, err := base64.StdEncoding.DecodeString(*in.RawB64)
		if err != nil {
			t.Fatal(err)
		}
		return data
	case in.RawGen != nil:
		return []byte(in.RawGen.document())
	}
	t.Fatal("the case has no document")
	return nil
}

func readCases[C any](t testing.TB, name string) []C {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	var cases []C
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
	return cases
}

// asError asserts that err is one of ours and bounded.
func asError(t *testing.T, err error) *Error {
	t.Helper()
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("got %T, want *Error", err)
	}
	if len(e.Violations) > MaxViolations || len(e.Error()) > 8192 {
		t.Errorf("the error is not bounded: %d violations, %d bytes", len(e.Violations), len(e.Error()))
	}
	if e.Code != SchemaInvalid && e.Code != LimitExceeded {
		t.Errorf("code is %s", e.Code)
	}
	return e
}

func hasPointer(e *Error, any ...string) bool {
	return slices.ContainsFunc(e.Violations, func(v Violation) bool { return slices.Contains(any, v.Pointer) })
}

func TestEnvelopeCases(t *testing.T) {
	type envelopeCase struct {
		ID     string
		Input  rawInput
		Expect struct {
			Result, Layer string
			Code          Code
			Pointers      []string `json:"detail_pointer_any"`
		}
	}
	for _, c := range readCases[envelopeCase](t, "envelopes.json") {
		t.Run(c.ID, func(t *testing.T) {
			_, err := Decode[ToolCall](c.Input.document(t))
			if c.Expect.Result == "accept" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			e := asError(t, err)
			if c.Expect.Code != "" && e.Code != c.Expect.Code {
				t.Errorf("code is %s, want %s", e.Code, c.Expect.Code)
			}
			if len(c.Expect.Pointers) > 0 && !hasPointer(e, c.Expect.Pointers...) {
				t.Errorf("got %v, want one of %q", e, c.Expect.Pointers)
			}
		})
	}
}

func TestPolicyCases(t *testing.T) {
	type policyCase struct {
		ID    string
		Input struct {
			rawInput
			Patch map[string]json.RawMessage `json:"patch"`
		}
		Expect struct {
			Result, Layer string
			Pointer       string `json:"detail_pointer"`
		}
	}
	ran := 0
	for _, c := range readCases[policyCase](t, "policy.json") {
		// Host entries, images and workspaces are judged by package policy.
		others := c.Expect.Layer == "semantic" && c.Expect.Pointer != "/toolQueueMs" || c.Expect.Result == "literal-or-reject"
		if others {
			continue
		}
		ran++
		t.Run(c.ID, func(t *testing.T) {
			var data []byte
			if c.Input.Patch != nil {
				data = patchedPolicy(t, c.Input.Patch)
			} else {
				data = c.Input.document(t)
			}
			_, err := Decode[Policy](data)
			if c.Expect.Result == "accept" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			want := c.Expect.Pointer
			for key := range c.Input.Patch {
				if name, ok := strings.CutPrefix(key, "@limit."); ok {
					want = "/limits/" + name
				}
			}
			e := asError(t, err)
			if c.Expect.Layer != "parse" && !hasPointer(e, want) {
				t.Errorf("got %v, want %q", e, want)
			}
		})
	}
	if ran < 40 {
		t.Errorf("only %d cases ran", ran)
	}
}

// patchedPolicy lays a case's patch over a valid document.
func patchedPolicy(t *testing.T, patch map[string]json.RawMessage) []byte {
	t.Helper()
	doc := map[string]json.RawMessage{
		"mode":            json.RawMessage(`"workspace-write"`),
		"egressAllow":     json.RawMessage(`[{"host":"example.com","port":443}]`),
		"startupBudgetMs": json.RawMessage(`10000`),
		"toolQueueMs":     json.RawMessage(`2000`),
	}
	patch = maps.Clone(patch)
	if del, ok := patch["$delete"]; ok {
		var keys []string
		if err := json.Unmarshal(del, &keys); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			delete(doc, key)
		}
		delete(patch, "$delete")
	}
	for key, value := range patch {
		name, isLimit := strings.CutPrefix(key, "@limit.")
		switch {
		case isLimit:
			doc["limits"] = json.RawMessage(`{"` + name + `":` + string(value) + `}`)
		case strings.HasPrefix(key, "@"):
			t.Fatalf("%s belongs to package policy", key)
		default:
			doc[key] = value
		}
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPathCases(t *testing.T) {
	type pathCase struct {
		ID    string
		Input struct {
			Path string
			Op   string
		}
		Expect struct{ Schema, Final string }
	}
	for _, c := range readCases[pathCase](t, "paths.json") {
		t.Run(c.ID, func(t *testing.T) {
			input := map[string]string{"path": c.Input.Path}
			if c.Input.Op == "write" {
				input["content"] = ""
			}
			data, err := json.Marshal(map[string]any{c.Input.Op: input})
			if err != nil {
				t.Fatal(err)
			}
			want := c.Expect.Schema
			if strings.Contains(c.Input.Path, "\x00") {
				want = "reject" // the frozen schema refuses NUL, one layer before the case says
			}
			_, err = Decode[ToolCall](data)
			if want == "accept" {
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			e := asError(t, err)
			if e.Code != SchemaInvalid || !hasPointer(e, "/"+c.Input.Op+"/path") {
				t.Errorf("got %v", e)
			}
		})
	}
}

func TestEventCases(t *testing.T) {
	type eventCase struct {
		ID     string
		Input  json.RawMessage
		Expect struct {
			Valid bool `json:"schema_valid"`
		}
	}
	for _, c := range readCases[eventCase](t, "events.json") {
		t.Run(c.ID, func(t *testing.T) {
			_, err := Decode[ToolCallEvent](c.Input)
			if c.Expect.Valid != (err == nil) {
				t.Errorf("valid is %v, want %v: %v", err == nil, c.Expect.Valid, err)
			}
		})
	}
}
