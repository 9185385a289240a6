// Package schemas holds the frozen JSON Schemas (draft 2020-12) of every
// document that crosses a boundary of realm, and the error catalogue as data.
//
// The files under v1 are written by hand and are the source of truth; those
// under control-plane are generated from package contract. SHA256SUMS freezes
// them: a breaking change is a new folder, the old one stays.
package schemas

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Files holds the schemas at the paths they have in the repository, so that
// their relative references resolve.
//
//go:embed v1/*.json control-plane/v1/*.json
var Files embed.FS

// Version is the folder that is current.
const Version = "v1"

const suffix = ".schema.json"

var folders = []string{Version, "control-plane/" + Version}

// Names returns the names of all schemas, sorted.
func Names() []string {
	var names []string
	for _, dir := range folders {
		entries, err := fs.ReadDir(Files, dir)
		if err != nil {
			panic("schemas: " + dir + " is not embedded") // a defect of the build
		}
		for _, e := range entries {
			if name, ok := strings.CutSuffix(e.Name(), suffix); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Path returns where the schema is in Files.
func Path(name string) (string, error) {
	for _, dir := range folders {
		p := path.Join(dir, name+suffix)
		if _, err := fs.Stat(Files, p); err == nil && slices.Contains(Names(), name) {
			return p, nil
		}
	}
	return "", fmt.Errorf("no schema of that name: %w", fs.ErrNotExist)
}

// Read returns the bytes of the schema, as frozen.
func Read(name string) ([]byte, error) {
	p, err := Path(name)
	if err != nil {
		return nil, err
	}
	return Files.ReadFile(p)
}

// Errors returns the error catalogue as data: code, reason, class, http, exit.
func Errors() ([]byte, error) { return Files.ReadFile(Version + "/errors.json") }
