package policy

import (
	"embed"
	"encoding/json"
	"strings"
)

//go:embed templates/*.yaml
var templateFiles embed.FS

// Template is a policy for one use, for a person to read and change.
type Template struct {
	Name  string
	Title string // what it is for, in a few words
}

// Templates returns the templates that `realm policy init` offers.
func Templates() []Template {
	return []Template{
		{"claude", "Claude Code, with a home to log in once"},
		{"codex", "Codex CLI, with a home to log in once"},
		{"gemini", "Gemini CLI, with a home to log in once"},
		{"go", "build and test Go code"},
		{"python", "run and test Python code"},
		{"node", "build and test JavaScript and TypeScript code"},
	}
}

// FindTemplate returns the template of a name.
func FindTemplate(name string) (Template, bool) {
	for _, t := range Templates() {
		if t.Name == name {
			return t, true
		}
	}
	return Template{}, false
}

// noMounts is the line of a template that Render fills in.
const noMounts = "mounts: []"

// Render returns the policy as YAML. Mounts are directories outside of /usr
// where the tool lies; they become read-only mounts.
func (t Template) Render(mounts []string) []byte {
	text, err := templateFiles.ReadFile("templates/" + t.Name + ".yaml")
	if err != nil {
		panic("policy: no template file for " + t.Name)
	}
	if len(mounts) == 0 {
		return text
	}
	entries := make([]string, len(mounts))
	for i, m := range mounts {
		quoted, err := json.Marshal(m)
		if err != nil {
			panic("policy: a string that has no JSON")
		}
		entries[i] = "{path: " + string(quoted) + "}"
	}
	filled := "mounts: [" + strings.Join(entries, ", ") + "]"
	return []byte(strings.Replace(string(text), noMounts, filled, 1))
}
