package contract

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"realm.dev/schemas"
)

// kinds knows every document for tests that treat all alike.
var kinds = []struct {
	doc *document
	// again decodes, encodes and decodes again, and returns the encoding.
	again func(t *testing.T, data []byte) ([]byte, error)
}{
	{policyDocument, again[Policy]},
	{callDocument, again[ToolCall]},
	{resultDocument, again[ToolResult]},
	{recordDocument, again[SessionRecord]},
	{detailDocument, again[SessionDetail]},
	{frameDocument, again[Frame]},
	{entryDocument, again[AuditEntry]},
	{eventDocument, again[ToolCallEvent]},
}

// again asserts that what is accepted is encoded, and accepted again with the
// same value and the same bytes.
func again[T Document](t *testing.T, data []byte) ([]byte, error) {
	t.Helper()
	v, err := Decode[T](data)
	if err != nil {
		return nil, err
	}
	encoded, err := Encode(v)
	if err != nil {
		t.Fatalf("accepted, but not encoded: %v", err)
	}
	w, err := Decode[T](encoded)
	if err != nil {
		t.Fatalf("encoded, but not accepted: %v\n%s", err, encoded)
	}
	if diff := cmp.Diff(forget(v), forget(w)); diff != "" {
		t.Fatalf("another value came back (-first +second):\n%s", diff)
	}
	twice, err := Encode(w)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(encoded, twice) {
		t.Fatalf("the encoding is not stable:\n%s\n%s", encoded, twice)
	}
	return encoded, nil
}

// forget drops what an encoding cannot hold: which keys of a policy were given.
func forget[T Document](v T) T {
	if p, ok := any(&v).(*Policy); ok {
		p.Explicit = nil
	}
	return v
}

// samples returns valid documents of a kind, which together have every key.
func samples(t testing.TB, name string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "samples", name+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}

func TestKindsAreComplete(t *testing.T) {
	var names []string
	for _, k := range kinds {
		names = append(names, k.doc.name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(schemas.Names(), names); diff != "" {
		t.Error(diff)
	}
}

func TestSamplesAreAccepted(t *testing.T) {
	for _, k := range kinds {
		for i, data := range samples(t, k.doc.name) {
			encoded, err := k.again(t, data)
			if err != nil {
				t.Errorf("%s %d: %v", k.doc.name, i, err)
			}
			if err := Validate(k.doc.name, data); err != nil {
				t.Errorf("%s %d: Validate: %v", k.doc.name, i, err)
			}
			if k.doc != policyDocument { // defaults are added
				if diff := cmp.Diff(untyped(t, data), untyped(t, encoded)); diff != "" {
					t.Errorf("%s %d (-sample +encoded):\n%s", k.doc.name, i, diff)
				}
			}
		}
	}
}

func untyped(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Every key of every schema is in a sample, so that tests that go through all
// positions of the samples go through all positions of the documents.
func TestSamplesHaveEveryKey(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range kinds {
		for _, data := range samples(t, k.doc.name) {
			collect(untyped(t, data), k.doc.schema(), seen)
		}
	}
	for _, k := range kinds {
		for location, s := range objectsOf(k.doc.schema()) {
			for key := range s.Properties {
				if !seen[location+" "+key] {
					t.Errorf("no sample has %s of %s", key, location)
				}
			}
		}
	}
}

// subschemas are where a value of the schema is described further.
func subschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	var subs []*jsonschema.Schema
	for _, sub := range []*jsonschema.Schema{s.Ref, s.Else} {
		if sub != nil {
			subs = append(subs, sub)
		}
	}
	return subs
}

func collect(v any, s *jsonschema.Schema, seen map[string]bool) {
	for _, sub := range subschemas(s) {
		collect(v, sub, seen)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if p, ok := s.Properties[key]; ok {
				seen[s.Location+" "+key] = true
				collect(item, p, seen)
			}
		}
	case []any:
		for _, item := range v {
			if s.Items2020 != nil {
				collect(item, s.Items2020, seen)
			}
		}
	}
}

// objectsOf finds the closed objects that are reachable in a document.
func objectsOf(root *jsonschema.Schema) map[string]*jsonschema.Schema {
	found := map[string]*jsonschema.Schema{}
	done := map[string]bool{}
	var visit func(s *jsonschema.Schema)
	visit = func(s *jsonschema.Schema) {
		if s == nil || done[s.Location] {
			return
		}
		done[s.Location] = true
		if len(s.Properties) > 0 && s.AdditionalProperties == false {
			found[s.Location] = s
		}
		for _, sub := range subschemas(s) {
			visit(sub)
		}
		for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
			visit(s.Properties[key])
		}
		visit(s.Items2020)
	}
	visit(root)
	return found
}
