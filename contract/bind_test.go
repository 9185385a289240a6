package contract

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// A tree that its schema should have refused is refused here as well, with
// nothing rounded, cut or dropped.
func TestBindIsExact(t *testing.T) {
	type inner struct {
		N int64 `json:"n"`
	}
	type outer struct {
		Items []inner           `json:"items"`
		Ptr   *inner            `json:"ptr"`
		Map   map[string]string `json:"map"`
		Small int               `json:"small"`
		Float float64           `json:"float"`
	}
	object := func(key string, v any) map[string]any { return map[string]any{key: v} }
	for name, c := range map[string]struct {
		tree any
		want Violation
	}{
		"key without field": {object("other", true), Violation{"", ruleUnknown}},
		"case":              {object("Small", json.Number("1")), Violation{"", ruleUnknown}},
		"fraction":          {object("items", []any{object("n", json.Number("1.5"))}), Violation{"/items/0/n", ruleNumber}},
		"too large":         {object("ptr", object("n", json.Number("9223372036854775808"))), Violation{"/ptr/n", ruleNumber}},
		"too large float":   {object("ptr", object("n", json.Number("1e19"))), Violation{"/ptr/n", ruleNumber}},
		"float":             {object("float", json.Number("1e999")), Violation{"/float", ruleNumber}},
		"string":            {object("small", "1"), Violation{"/small", ruleType}},
		"array":             {object("ptr", []any{}), Violation{"/ptr", ruleType}},
		"object":            {object("items", map[string]any{}), Violation{"/items", ruleType}},
		"null item":         {object("map", object("a", nil)), Violation{"/map/a", ruleType}},
		"null number":       {object("small", nil), Violation{"/small", ruleType}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			var v outer
			f := bind(reflect.ValueOf(&v).Elem(), c.tree)
			if f == nil {
				t.Fatalf("accepted as %+v", v)
			}
			if got := f.violation(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
