package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write SHA256SUMS, together with a completed v1")

// sums returns the frozen files and their hashes in the form of sha256sum(1).
func sums(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	entries, err := fs.ReadDir(Files, Version)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := Files.ReadFile(path.Join(Version, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		b.WriteString(hex.EncodeToString(sum[:]) + "  " + e.Name() + "\n")
	}
	return b.String()
}

// A changed byte fails here. v1 may be completed until the first release, with
// SHA256SUMS in the same commit; after it a change is a new folder.
func TestVersionOneIsFrozen(t *testing.T) {
	const file = Version + "/SHA256SUMS"
	got := sums(t)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the frozen schemas are not those of %s:\n%s", file, got)
	}
}

func TestNames(t *testing.T) {
	want := []string{
		"audit-entry", "control-message", "policy", "session-detail", "session-record", "tool-call", "tool-call-event", "tool-result",
	}
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, name := range want {
		data, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(data) {
			t.Errorf("%s is not JSON", name)
		}
	}
}

func TestReadKnowsOnlySchemas(t *testing.T) {
	for _, name := range []string{"", "errors", "../v1/policy", "v1/policy", "policy.schema.json", "."} {
		if _, err := Read(name); err == nil {
			t.Errorf("Read(%q) found something", name)
		}
	}
}

// Every object is closed, no schema names a URL that can change, and there is
// no format or reference that needs a network.
func TestSchemaDiscipline(t *testing.T) {
	for _, name := range Names() {
		data, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(data, &doc); err != nil {
			t.Fatal(err)
		}
		if doc["$schema"] != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%s: $schema is %v", name, doc["$schema"])
		}
		walk(t, name, doc)
	}
}

// free are the objects that are handed through as they are.
var free = []string{
	"tool-call-event/properties/input", "tool-call-event/$defs/EventMeta/properties/passthrough",
}

func walk(t *testing.T, at string, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			walk(t, at+"[]", item)
		}
	case map[string]any:
		if _, ok := v["$id"]; ok {
			t.Errorf("%s: has $id", at)
		}
		if _, ok := v["propertyNames"]; ok {
			t.Errorf("%s: has propertyNames, whose errors the validator misplaces", at)
		}
		if ref, ok := v["$ref"].(string); ok && strings.Contains(ref, ":") {
			t.Errorf("%s: refers to %s", at, ref)
		}
		_, closed := v["additionalProperties"]
		if v["type"] == "object" && !closed && !slices.Contains(free, at) {
			t.Errorf("%s: is an open object", at)
		}
		if v["additionalProperties"] == true {
			t.Errorf("%s: allows any key", at)
		}
		for key, item := range v {
			walk(t, at+"/"+key, item)
		}
	}
}
