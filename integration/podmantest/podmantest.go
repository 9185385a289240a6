// Package podmantest gives tests the Podman that they need, or ends them with
// the reason why it is not there.
package podmantest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// MinMajor is the first major version of Podman that realm runs on.
const MinMajor = 5

// requireEnv names the variable that turns a skip into a failure. CI sets it:
// there, a test that did not run must not look like one that passed.
const requireEnv = "REALM_REQUIRE_PODMAN"

const infoTimeout = 30 * time.Second

// Facts say which Podman a test got.
type Facts struct {
	Binary         string // absolute path of the podman command
	Version        string // as Podman reports it, for example "5.4.2"
	Rootless       bool
	CgroupVersion  string // "v1" or "v2"
	Runtime        string // "crun" or "runc"
	RuntimeVersion string // for example "1.21"
}

var find = sync.OnceValues(func() (Facts, error) {
	ctx, cancel := context.WithTimeout(context.Background(), infoTimeout)
	defer cancel()
	return Find(ctx)
})

// Require returns the facts about a usable Podman. Without one it skips the
// test, and fails it where REALM_REQUIRE_PODMAN is 1. With -short it skips.
func Require(t testing.TB) Facts {
	t.Helper()
	required := os.Getenv(requireEnv) == "1"
	if testing.Short() && !required {
		t.Skip("needs Podman: not run with -short")
	}
	facts, err := find()
	switch {
	case err == nil:
		return facts
	case required:
		t.Fatalf("%v (%s=1)", err, requireEnv)
	default:
		t.Skipf("%v; run: integration/podmanhost/host run -- go test ./...", err)
	}
	return Facts{}
}

// Find looks for the podman command and asks it what it is.
func Find(ctx context.Context) (Facts, error) {
	binary, err := exec.LookPath("podman")
	if err != nil {
		return Facts{}, fmt.Errorf("needs Podman %d, found none", MinMajor)
	}
	// The version alone comes first: an old Podman may report other facts in
	// another shape, or fail to.
	out, err := exec.CommandContext(ctx, binary, "--version").Output()
	if err != nil {
		return Facts{}, fmt.Errorf("needs Podman %d, podman --version: %w", MinMajor, err)
	}
	version, err := parseVersion(string(out))
	if err != nil {
		return Facts{}, err
	}
	out, err = exec.CommandContext(ctx, binary, "info", "--format", "json").Output()
	if err != nil {
		return Facts{}, fmt.Errorf("podman %s is installed but does not work: podman info: %w", version, withStderr(err))
	}
	facts, err := parseInfo(out)
	if err != nil {
		return Facts{}, err
	}
	facts.Binary = binary
	return facts, nil
}

// parseVersion reads the answer of `podman --version` and refuses an old one.
func parseVersion(out string) (string, error) {
	fields := strings.Fields(out)
	if len(fields) == 0 {
		return "", fmt.Errorf("needs Podman %d, found one that does not say its version", MinMajor)
	}
	version := fields[len(fields)-1]
	major, err := strconv.Atoi(strings.SplitN(version, ".", 2)[0])
	if err != nil || major < MinMajor {
		return "", fmt.Errorf("needs Podman %d, found %s", MinMajor, version)
	}
	return version, nil
}

func parseInfo(out []byte) (Facts, error) {
	var info struct {
		Host struct {
			CgroupVersion string `json:"cgroupVersion"`
			OCIRuntime    struct {
				Name    string `json:"name"`
				Version string `json:"version"`
			} `json:"ociRuntime"`
			Security struct {
				Rootless bool `json:"rootless"`
			} `json:"security"`
		} `json:"host"`
		Version struct {
			Version string `json:"Version"`
		} `json:"version"`
	}
	if err := json.Unmarshal(out, &info); err != nil {
		return Facts{}, fmt.Errorf("podman info: %w", err)
	}
	return Facts{
		Version:        info.Version.Version,
		Rootless:       info.Host.Security.Rootless,
		CgroupVersion:  info.Host.CgroupVersion,
		Runtime:        info.Host.OCIRuntime.Name,
		RuntimeVersion: runtimeVersion(info.Host.OCIRuntime.Version),
	}, nil
}

// runtimeVersion takes "1.21" from "crun version 1.21\ncommit: …".
func runtimeVersion(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return ""
	}
	return fields[len(fields)-1]
}

func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
