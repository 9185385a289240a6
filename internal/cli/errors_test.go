package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
)

// Every code of the catalogue has its text and its exit code.
func TestEveryCodeIsReported(t *testing.T) {
	for _, row := range contract.Catalogue() {
		t.Run(string(row.Code), func(t *testing.T) {
			err := contract.Errorf(row.Code, "the detail").WithHint("the hint")
			if got := exitCode(err); got != row.Exit {
				t.Errorf("exit code %d, want %d", got, row.Exit)
			}
			want := "realm: " + string(row.Code) + ": the detail\nrealm: hint: the hint\n"
			if diff := cmp.Diff(want, reported(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReport(t *testing.T) {
	invalid := contract.Invalid(
		contract.Violation{Pointer: "/a", Rule: "is wrong"}, contract.Violation{Pointer: "", Rule: "is wrong too"},
	)
	for _, tt := range []struct {
		name string
		err  error
		code int
		text string
	}{
		{"nothing", nil, 0, ""},
		{"code-of-a-command", exitWith(42), 42, ""},
		{"usage", usagef("no").withHint("yes"), 2, "realm: no\nrealm: hint: yes\n"},
		{
			"violations", invalid, 2,
			"realm: SCHEMA_INVALID: a document does not match its schema\nrealm:   the document: is wrong too\nrealm:   /a: is wrong\n",
		},
		{
			"violations-in-a-file", locate(document{"f.json", []byte("{\n \"a\": 1}"), contract.JSON}, invalid), 2,
			"realm: f.json:1:1: the document: is wrong too\nrealm: f.json:2:2: /a: is wrong\n",
		},
		{"command-not-found", &contract.Error{Code: contract.ExecNotStarted, Errno: "ENOENT"}, 127, "realm: EXEC_NOT_STARTED: \n"},
		{"no-code", errors.New("password is 12345"), 1, "realm: INTERNAL: a defect of realm\n"},
		{"control-characters", contract.Errorf(contract.Internal, "a\x1b[2Jb\nrealm: c"), 1, "realm: INTERNAL: a\\x1b[2Jb\\x0arealm: c\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := exitCode(tt.err); got != tt.code {
				t.Errorf("exit code %d, want %d", got, tt.code)
			}
			if diff := cmp.Diff(tt.text, reported(tt.err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManyViolationsAreCounted(t *testing.T) {
	var vs []contract.Violation
	for i := range contract.MaxViolations + 3 {
		vs = append(vs, contract.Violation{Pointer: "/" + strings.Repeat("a", i+1), Rule: "is wrong"})
	}
	text := reported(contract.Invalid(vs...))
	if !strings.HasSuffix(text, "\nrealm:   and 3 more\n") {
		t.Errorf("the rest is not counted:\n%s", text)
	}
}

// A panic says what broke and nothing of what it held.
func TestPanicIsADefect(t *testing.T) {
	var out, err bytes.Buffer
	a := &app{Streams: Streams{Out: &out, Err: &err}}
	if code := a.panicked(errors.New("password is 12345")); code != contract.ExitDefect {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(err.String(), "12345") || !strings.Contains(err.String(), "a panic of type *errors.errorString") {
		t.Errorf("said:\n%s", err.String())
	}
}

func TestJSONIsHarmlessAndTheSame(t *testing.T) {
	var out bytes.Buffer
	a := &app{Streams: Streams{Out: &out}}
	if err := a.printJSON(map[string]string{"k": "a\u009b31m\u202e\U000e0041<é>\x7f"}); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"k\": \"a\\u009b31m\\u202e\\udb40\\udc41<é>\\u007f\"\n}\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func reported(err error) string {
	var b bytes.Buffer
	report(&b, err)
	return b.String()
}
