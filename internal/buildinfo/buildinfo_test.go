package buildinfo

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadIsComplete(t *testing.T) {
	got := Read()
	if got.Version == "" || got.Go != runtime.Version() || got.OS != runtime.GOOS || got.Arch != runtime.GOARCH {
		t.Errorf("Read() = %+v", got)
	}
}

func TestCompletePrefersTheLinker(t *testing.T) {
	b := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.3.0"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"},
		},
	}
	for _, tt := range []struct {
		name     string
		in, want Info
	}{
		{"empty", Info{}, Info{Version: "v0.3.0", Commit: "abc", Date: "2026-01-02T03:04:05Z"}},
		{"linked", Info{Version: "1", Commit: "c", Date: "d"}, Info{Version: "1", Commit: "c", Date: "d"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.complete(b)
			if diff := cmp.Diff(tt.want, tt.in); diff != "" {
				t.Error(diff)
			}
		})
	}
}
