package policy

import (
	"bytes"
	"strings"
	"testing"

	"realm.dev/contract"
)

// TestTemplates proves that each template works as it is written, and with the
// mounts that a person's machine needs.
func TestTemplates(t *testing.T) {
	for _, tmpl := range Templates() {
		for _, mounts := range [][]string{nil, {"/opt/some tool", `/opt/"q"`}} {
			text := tmpl.Render(mounts)
			p, err := Load(text, FormatYAML)
			if err != nil {
				t.Fatalf("%s: %v", tmpl.Name, err)
			}
			c, err := Compile(p)
			if err != nil {
				t.Fatalf("%s: %v", tmpl.Name, err)
			}
			if got := c.Policy(); got.Mode != contract.WorkspaceWrite || len(got.Mounts) != len(mounts) {
				t.Errorf("%s: mode %s with %d mounts", tmpl.Name, got.Mode, len(got.Mounts))
			}
			for i, m := range c.Policy().Mounts {
				if m.Path != mounts[i] || m.Write {
					t.Errorf("%s: mount %d became %+v", tmpl.Name, i, m)
				}
			}
		}
		for i, line := range strings.Split(strings.TrimSpace(string(tmpl.Render(nil))), "\n") {
			if line != "limits:" && !strings.Contains(line, "# ") {
				t.Errorf("%s:%d has no comment", tmpl.Name, i+1)
			}
		}
		if got, ok := FindTemplate(tmpl.Name); !ok || got != tmpl {
			t.Errorf("%s is not found", tmpl.Name)
		}
	}
	if _, ok := FindTemplate("../doc"); ok {
		t.Error("a template that does not exist was found")
	}
	if !bytes.Contains(Template{Name: "go"}.Render(nil), []byte(noMounts)) {
		t.Error("the go template has no place for mounts")
	}
}
