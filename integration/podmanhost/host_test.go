// Package podmanhost_test tests the host script from outside of the host, where
// `make test` runs it; inside, the script only passes commands on.
package podmanhost_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// script skips where there is nothing to test: the machine's own Podman is
// used, or this is not root and no host can be made.
func script(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("podman", "--version").Output(); err == nil {
		t.Skipf("the machine has its own: %s", strings.TrimSpace(string(out)))
	}
	if os.Geteuid() != 0 {
		t.Skip("making a host needs root")
	}
	if testing.Short() {
		t.Skip("makes a host")
	}
	path, err := filepath.Abs("host")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

type result struct {
	stdout string
	code   int
}

func run(t *testing.T, dir, name string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader("from stdin\n")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		t.Fatal(err)
	}
	r := result{stdout: string(out)}
	if failed {
		r.code = exit.ExitCode()
	}
	return r
}

func TestCommandsKeepWhatTheyAreGiven(t *testing.T) {
	host := script(t)
	t.Setenv("REALM_HOST_TEST", "two words")
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args []string
		want result
	}{
		"arguments":   {[]string{"printf", "%s|", "a b", "", "*"}, result{stdout: "a b||*|"}},
		"environment": {[]string{"sh", "-c", `echo "$REALM_HOST_TEST"`}, result{stdout: "two words\n"}},
		"directory":   {[]string{"pwd"}, result{stdout: dir + "\n"}},
		"stdin":       {[]string{"cat"}, result{stdout: "from stdin\n"}},
		"exit-code":   {[]string{"sh", "-c", "exit 7"}, result{code: 7}},
		"not-found":   {[]string{"no-such-command"}, result{code: 127}},
		"checkout":    {[]string{"test", "-f", "../../go.mod"}, result{}},
		"out-of-view": {[]string{"sh", "-c", "ls /.machine | wc -l"}, result{stdout: "0\n"}},
	}
	for _, command := range []string{"run", "run-as-user"} {
		for name, test := range tests {
			t.Run(command+"/"+name, func(t *testing.T) {
				got := run(t, "", host, append([]string{command, "--"}, test.args...)...)
				if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(result{})); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestBothKindsOfPodman(t *testing.T) {
	host := script(t)
	for command, want := range map[string]string{"run": "0 false", "run-as-user": "2001 true"} {
		t.Run(command, func(t *testing.T) {
			got := run(t, "", host, command, "--", "sh", "-c",
				`echo "$(id -u) $(podman info --format '{{.Host.Security.Rootless}}')"`)
			if got.stdout != want+"\n" || got.code != 0 {
				t.Errorf("got %q, exit %d; want %q", got.stdout, got.code, want)
			}
		})
	}
}

// CI checks out in a directory that may be private and may have been used by an
// earlier run; the unprivileged user must see the checkout of now.
func TestPrivateAndReplacedCheckout(t *testing.T) {
	host := script(t)
	parent := t.TempDir()
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(parent, "checkout")
	for _, content := range []string{"first", "second"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"run", "run-as-user"} {
			if got := run(t, dir, host, command, "--", "cat", "file"); got.stdout != content {
				t.Errorf("%s: got %q, exit %d; want %q", command, got.stdout, got.code, content)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	host := script(t)
	for _, args := range [][]string{{}, {"sideways"}} {
		if got := run(t, "", host, args...); got.code != 2 || got.stdout != "" {
			t.Errorf("%q: got %+v; want exit 2 and nothing on stdout", args, got)
		}
	}
	if got := run(t, "", host, "help"); got.code != 0 || !strings.HasPrefix(got.stdout, "usage: host ") {
		t.Errorf("help: got %+v", got)
	}
}
