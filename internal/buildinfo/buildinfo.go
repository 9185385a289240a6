// Package buildinfo tells which realm this is.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Set by the linker: -X realm.dev/internal/buildinfo.version=1.2.3.
var (
	version = ""
	commit  = ""
	date    = "" // of the commit, RFC 3339, so that builds are reproducible
)

// Info describes a build. What is not known is empty.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Read returns what the linker was told, completed by what the Go toolchain
// recorded. A build of neither is version "devel".
func Read() Info {
	i := Info{Version: version, Commit: commit, Date: date, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if b, ok := debug.ReadBuildInfo(); ok {
		i.complete(b)
	}
	if i.Version == "" {
		i.Version = "devel"
	}
	return i
}

func (i *Info) complete(b *debug.BuildInfo) {
	if i.Version == "" && b.Main.Version != "(devel)" {
		i.Version = b.Main.Version
	}
	for _, s := range b.Settings {
		switch {
		case s.Key == "vcs.revision" && i.Commit == "":
			i.Commit = s.Value
		case s.Key == "vcs.time" && i.Date == "":
			i.Date = s.Value
		}
	}
}
