package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"realm.dev/internal/cli"
)

// secrets have the shapes of credentials; none is one.
func secrets() []string {
	return []string{
		"sk-" + strings.Repeat("a1B2", 12),
		"gh" + "p_" + strings.Repeat("x9Y8", 9),
		"AK" + "IAIOSFODNN7EXAMPLE",
		"eyJhbGciOiJIUzI1NiJ9." + strings.Repeat("eyJ", 9) + ".sig-nature",
		"xox" + "b-123456789012-abcdefABCDEF",
		"-----BEGIN PRIVATE KEY-----" + strings.Repeat("MIIE", 8),
		"hunter2-correct-horse",
		"pass\x1b]52;c;word\a-and-more",
		"--token=" + strings.Repeat("f00d", 8),
	}
}

// isolate gives the test directories of its own and returns its workspace.
func isolate(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, dir)
	}
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	return ws
}

// run is one command line, with everything that it says.
func run(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = cli.Main(args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &err})
	return code, out.String(), err.String()
}

// A secret at the wrong place, wherever that is, does not come back.
func TestSecretsDoNotComeBack(t *testing.T) {
	ws := isolate(t)
	policy := filepath.Join(filepath.Dir(ws), "p.json")
	if err := os.WriteFile(policy, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, secret := range secrets() {
		quoted := jsonString(t, secret)
		// Each position is a command line and what it reads.
		positions := map[string]struct {
			stdin string
			args  []string
		}{
			"command":          {"", []string{secret}},
			"command-of-group": {"", []string{"policy", secret}},
			"help":             {"", []string{"help", secret}},
			"flag":             {"", []string{"run", "--" + secret, "--", "true"}},
			"short-flag":       {"", []string{"ps", "-" + secret}},
			"flag-value":       {"", []string{"stop", "--all", "--grace", secret}},
			"bool-value":       {"", []string{"ps", "--json=" + secret}},
			"extra-argument":   {"", []string{"doctor", "--json", secret, secret}},
			"session":          {"", []string{"show", secret}},
			"session-json":     {"", []string{"show", "--json", secret}},
			"exec-session":     {"", []string{"exec", secret, "--", "true"}},
			"exec-env":         {"", []string{"exec", "x", "-e", secret, "--", "true"}},
			"exec-env-value":   {"", []string{"exec", "x", "-e", "A=" + secret, "--", secret}},
			"schema":           {"", []string{"schema", "print", secret}},
			"schema-validate":  {"", []string{"schema", "validate", secret, policy}},
			"file":             {"", []string{"schema", "validate", "policy", secret}},
			"files":            {"", []string{"schema", "validate", "--json", "policy", policy, secret}},
			"template":         {"", []string{"policy", "init", secret}},
			"output":           {"", []string{"policy", "init", "go", "-o", ws + "/none/" + secret}},
			"policy-file":      {"", []string{"policy", "check", secret}},
			"run-policy":       {"", []string{"run", "--workspace", ws, "--policy", secret, "--", secret}},
			"run-workspace":    {"", []string{"run", "--policy", policy, "--workspace", secret, "--", "true"}},
			"run-image":        {"", []string{"run", "--workspace", ws, "--image", secret + "/../x", "--", "true"}},
			"run-env":          {"", []string{"run", "--workspace", ws, "-e", "A=" + secret, "--", "true"}},
			"run-allow":        {"", []string{"run", "--workspace", ws, "--allow", secret, "--", "true"}},
			"run-allow-host":   {"", []string{"run", "--workspace", ws, "--allow", secret + ":1", "--", "true"}},
			"call":             {"", []string{"policy", "explain", policy, "--workspace", ws, "--call", secret}},
			"call-path":        {"", []string{"policy", "explain", policy, "--workspace", ws, "--call", `{"read":{"path":` + quoted + `}}`}},
			"call-key":         {"", []string{"policy", "explain", policy, "--workspace", ws, "--call", `{` + quoted + `:{}}`}},
			"call-argv":        {"", []string{"policy", "explain", policy, "--workspace", ws, "--call", `{"exec":{"argv":["sh","-c",` + quoted + `]}}`}},
			"call-stdin":       {secret, []string{"policy", "explain", policy, "--workspace", ws, "--json", "--call", "-"}},
			"egress":           {"", []string{"policy", "explain", policy, "--egress", secret}},
			"egress-host":      {"", []string{"policy", "explain", policy, "--json", "--egress", secret + ":443"}},
			"document":         {secret, []string{"policy", "check", "-"}},
			"document-key":     {`{` + quoted + `: 1}`, []string{"policy", "check", "--json", "-"}},
			"document-value":   {`{"mode": ` + quoted + `}`, []string{"schema", "validate", "policy", "-"}},
			"document-yaml":    {"mode: !!" + secret + "\n", []string{"policy", "check", "-"}},
			"document-host":    {`{"egressAllow": [{"host": "*.*", "port": 1}], "hide": [` + quoted + `, ""]}`, []string{"policy", "check", "-"}},
			"completion":       {"", []string{"completion", secret}},
		}
		for name, p := range positions {
			t.Run(fmt.Sprintf("%s/%.6q", name, secret), func(t *testing.T) {
				code, stdout, stderr := run(p.stdin, p.args...)
				if code == 0 && !strings.HasPrefix(name, "call") {
					t.Errorf("ended with 0: the mistake went unnoticed")
				}
				for _, text := range []string{stdout, stderr} {
					if i := strings.Index(text, secret[:12]); i >= 0 {
						t.Errorf("the secret came back in:\n%s", text)
					}
					if strings.ContainsRune(text, 0x1b) {
						t.Errorf("an escape character came through:\n%q", text)
					}
				}
			})
		}
	}
}

func jsonString(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
