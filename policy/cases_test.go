package policy

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"realm.dev/contract"
)

// readCases reads a file of inputs with their right outcomes.
func readCases[T any](t *testing.T, name string) []T {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var rows []T
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) == 0 {
		t.Fatalf("%s has no rows", name)
	}
	return rows
}

// parsePolicy loads and compiles, the way every door does.
func parsePolicy(doc []byte) (*Compiled, error) {
	p, err := Load(doc, FormatJSON)
	if err != nil {
		return nil, err
	}
	return Compile(p)
}

func mustCompile(t testing.TB, doc string) *Compiled {
	t.Helper()
	c, err := parsePolicy([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return c
}

// violationsOf returns what an error complains about.
func violationsOf(err error) []contract.Violation {
	if e, ok := errors.AsType[*contract.Error](err); ok {
		return e.Violations
	}
	return nil
}

func complainsAt(err error, pointer string) bool {
	for _, v := range violationsOf(err) {
		if v.Pointer == pointer {
			return true
		}
	}
	return false
}

type policyCase struct {
	ID    string `json:"id"`
	Input struct {
		Patch map[string]json.RawMessage `json:"patch"`
		Raw   *string                    `json:"raw"`
	} `json:"input"`
	Expect struct {
		Result  string `json:"result"`
		Layer   string `json:"layer"`
		Pointer string `json:"detail_pointer"`
	} `json:"expect"`
	Why string `json:"why"`
}

// byFileSystem are rows that only the file system can refuse: the name alone
// is fine.
var byFileSystem = map[string]bool{"PO-102": true, "PO-103": true}

func TestPolicyCases(t *testing.T) {
	for _, row := range readCases[policyCase](t, "policy.json") {
		t.Run(row.ID, func(t *testing.T) {
			err := runPolicyCase(t, row)
			switch {
			case byFileSystem[row.ID], row.Expect.Result == "accept":
				if err != nil {
					t.Errorf("%s: refused: %v", row.Why, err)
				}
				return
			case row.Expect.Result == "literal-or-reject":
				return // the name is checked in runPolicyCase
			case err == nil:
				t.Fatalf("%s: accepted", row.Why)
			}
			if code := contract.CodeOf(err); code != contract.SchemaInvalid {
				t.Errorf("%s: code %s", row.Why, code)
			}
			if row.Expect.Pointer != "" && !complainsAt(err, row.Expect.Pointer) {
				t.Errorf("%s: want a violation at %s, got %v", row.Why, row.Expect.Pointer, err)
			}
		})
	}
}

// runPolicyCase applies a row's patch to a base document; the keys with @ are
// the symbols of the cases.
func runPolicyCase(t *testing.T, row policyCase) error {
	t.Helper()
	if row.Input.Raw != nil {
		_, err := parsePolicy([]byte(*row.Input.Raw))
		return err
	}
	doc := map[string]any{
		"egressAllow":     []any{map[string]any{"host": "example.com", "port": 443}},
		"startupBudgetMs": 10000,
		"toolQueueMs":     2000,
	}
	limits := map[string]any{}
	var workspace *string
	for key, raw := range row.Input.Patch {
		switch name, isLimit := strings.CutPrefix(key, "@limit."); {
		case key == "@workspace":
			if err := json.Unmarshal(raw, &workspace); err != nil {
				t.Fatal(err)
			}
		case key == "@image":
			doc["image"] = raw
		case isLimit:
			limits[name] = raw
			doc["limits"] = limits
		case key == "$delete":
			var keys []string
			if err := json.Unmarshal(raw, &keys); err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				delete(doc, k)
			}
		default:
			doc[key] = raw
		}
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsePolicy(data); err != nil || workspace == nil {
		return err
	}
	clean, err := Workspace(*workspace, Host{})
	if err == nil && clean != *workspace {
		t.Errorf("the workspace became another name")
	}
	return err
}

type argvCase struct {
	ID    string `json:"id"`
	Input struct {
		Argv []json.RawMessage `json:"argv"`
	} `json:"input"`
	Expect struct {
		Shell *bool `json:"shell_equivalent"`
	} `json:"expect"`
	Why string `json:"why"`
}

func TestArgvCases(t *testing.T) {
	judged := 0
	for _, row := range readCases[argvCase](t, "argv.json") {
		if row.Expect.Shell == nil {
			continue
		}
		judged++
		argv := make([]string, len(row.Input.Argv))
		for i, raw := range row.Input.Argv {
			if err := json.Unmarshal(raw, &argv[i]); err != nil {
				t.Fatalf("%s: %v", row.ID, err)
			}
		}
		if got := ShellForm(argv); got != *row.Expect.Shell {
			t.Errorf("%s %q: ShellForm is %t (%s)", row.ID, argv, got, row.Why)
		}
		call := contract.ToolCall{Exec: &contract.ExecCall{Argv: argv}}
		got := mustCompile(t, `{}`).Decide(Request{Call: call}).Code
		if want := map[bool]contract.Code{true: contract.ShellNotAllowed}[*row.Expect.Shell]; got != want {
			t.Errorf("%s %q: decided with code %q, want %q", row.ID, argv, got, want)
		}
	}
	if judged == 0 {
		t.Error("no row was judged")
	}
}

type hostCase struct {
	ID    string `json:"id"`
	Input struct {
		Allow     json.RawMessage `json:"allow"`
		Authority string          `json:"authority"`
	} `json:"input"`
	Expect struct {
		Decision string `json:"decision"`
		Feature  string `json:"feature"`
	} `json:"expect"`
	Why string `json:"why"`
}

// TestHostCases loads every entry of the host corpus, and decides every row
// that names alone decide.
func TestHostCases(t *testing.T) {
	for _, row := range readCases[hostCase](t, "hosts.json") {
		c := mustCompile(t, `{"egressAllow":`+string(row.Input.Allow)+`}`)
		if f := row.Expect.Feature; f == "resolved-ip-guard" || f == "http-forward" {
			continue
		}
		got := contract.Deny
		if host, port, err := ParseTarget(row.Input.Authority); err == nil {
			got = c.Egress(host, port).Effect
		}
		if string(got) != row.Expect.Decision {
			t.Errorf("%s %q: %s, want %s (%s)", row.ID, row.Input.Authority, got, row.Expect.Decision, row.Why)
		}
	}
}
