package podmantest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseVersion(t *testing.T) {
	tests := map[string]struct {
		out, version, err string
	}{
		"five":       {out: "podman version 5.4.2\n", version: "5.4.2"},
		"later":      {out: "podman version 6.0.0-dev\n", version: "6.0.0-dev"},
		"four":       {out: "podman version 4.3.1\n", err: "needs Podman 5, found 4.3.1"},
		"words":      {out: "podman version unknown\n", err: "needs Podman 5, found unknown"},
		"empty":      {out: "\n", err: "needs Podman 5, found one that does not say its version"},
		"ten-is-new": {out: "podman version 10.1.0", version: "10.1.0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			version, err := parseVersion(test.out)
			if version != test.version || message(err) != test.err {
				t.Errorf("got %q, %q; want %q, %q", version, message(err), test.version, test.err)
			}
		})
	}
}

func TestParseInfo(t *testing.T) {
	got, err := parseInfo([]byte(`{"host": {"cgroupVersion": "v1", "security": {"rootless": true},
		"ociRuntime": {"name": "crun", "version": "crun version 1.21\ncommit: 10269840"}},
		"version": {"Version": "5.4.2"}, "store": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := Facts{Version: "5.4.2", Rootless: true, CgroupVersion: "v1", Runtime: "crun", RuntimeVersion: "1.21"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := parseInfo([]byte("not JSON")); err == nil {
		t.Error("text that is not JSON was accepted")
	}
}

// The host gives what it promises: the right Podman, as the right user.
func TestRequire(t *testing.T) {
	facts := Require(t)
	if facts.Rootless != (os.Geteuid() != 0) {
		t.Errorf("uid %d got a Podman with rootless=%t", os.Geteuid(), facts.Rootless)
	}
	if facts.Runtime == "" || facts.RuntimeVersion == "" || facts.CgroupVersion == "" {
		t.Errorf("facts are missing: %+v", facts)
	}
}

func TestServiceEndsWithTheTest(t *testing.T) {
	var address string
	t.Run("answers", func(t *testing.T) { address = Service(t) })
	if address == "" {
		t.Skip("no Podman")
	}
	socket := strings.TrimPrefix(address, "unix://")
	for deadline := time.Now().Add(serviceStop); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the socket outlived the test")
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
