package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"realm.dev/schemas"
)

// The catalogue as the design has it: code, class, http, exit.
const design = `
SCHEMA_INVALID, invalid argument, 400, 2
LIMIT_EXCEEDED, resource exhausted, 413, 2
PATH_REFUSED, permission denied, 403, 3
PATH_NOT_FOUND, not found, 404, 4
WRITE_CONFLICT, failed precondition, 409, 5
SHELL_NOT_ALLOWED, permission denied, 403, 3
EGRESS_REFUSED, permission denied, 403, 3
PERMISSION_DENIED, permission denied, 403, 3
PERMISSION_UNAVAILABLE, unavailable, 503, 3
QUEUE_TIMEOUT, deadline exceeded, 504, 124
STARTUP_TIMEOUT, deadline exceeded, 504, 124
EXEC_TIMEOUT, deadline exceeded, 504, 124
EXEC_NOT_STARTED, failed precondition, 422, 126
SESSION_NOT_FOUND, not found, 404, 4
SESSION_STATE, failed precondition, 409, 5
SESSION_LOST, aborted, 500, 125
IMAGE_UNAVAILABLE, not found, 424, 125
PODMAN_UNAVAILABLE, unavailable, 503, 125
PODMAN_UNSUPPORTED_VERSION, failed precondition, 501, 125
ISOLATION_UNPROVEN, failed precondition, 500, 125
INTERNAL, internal, 500, 1
`

func TestCatalogueIsTheDesigns(t *testing.T) {
	var lines []string
	for _, row := range Catalogue() {
		lines = append(lines, fmt.Sprintf("%s, %s, %d, %d", row.Code, row.Class, row.HTTP, row.Exit))
	}
	if diff := cmp.Diff(strings.TrimSpace(design), strings.Join(lines, "\n")); diff != "" {
		t.Error(diff)
	}
}

func TestCatalogueIsTotal(t *testing.T) {
	constants := constantsOf(t)
	var codes []string
	for _, row := range Catalogue() {
		codes = append(codes, string(row.Code))
	}
	if diff := cmp.Diff(constants["Code"], codes); diff != "" {
		t.Errorf("constants and rows, in order (-constants +rows):\n%s", diff)
	}
	phrase := regexp.MustCompile(`^[a-zA-Z][^\n]{8,80}[^.\n]$`)
	for _, row := range Catalogue() {
		c := row.Code
		if !c.Known() || c.Reason() != row.Reason || c.Class() != row.Class || c.HTTP() != row.HTTP || c.Exit() != row.Exit {
			t.Errorf("%s: the methods and the row differ", c)
		}
		if !phrase.MatchString(row.Reason) {
			t.Errorf("%s: reason %q", c, row.Reason)
		}
		if !slices.Contains(constants["Class"], string(row.Class)) {
			t.Errorf("%s: class %q is no constant", c, row.Class)
		}
	}
}

// A class has one meaning in HTTP, and an exit code that says who is to act: the
// caller below 124, a deadline 124, the host above.
func TestClassesAreConsistent(t *testing.T) {
	statuses := map[Class][]int{
		InvalidArgument: {400}, ResourceExhausted: {413}, ClassDenied: {403}, NotFound: {404, 424},
		FailedPrecondition: {409, 422, 501, 500}, Unavailable: {503}, DeadlineExceeded: {504}, Aborted: {500}, ClassInternal: {500},
	}
	exits := map[int][]int{
		400: {ExitUsage}, 413: {ExitUsage}, 403: {ExitRefused}, 404: {ExitNotFound}, 409: {ExitConflict}, 422: {ExitNotExecutable},
		424: {ExitFailed}, 501: {ExitFailed}, 500: {ExitFailed, ExitDefect}, 503: {ExitRefused, ExitFailed}, 504: {ExitDeadline},
	}
	for _, row := range Catalogue() {
		if !slices.Contains(statuses[row.Class], row.HTTP) {
			t.Errorf("%s: %s as %d", row.Code, row.Class, row.HTTP)
		}
		if !slices.Contains(exits[row.HTTP], row.Exit) {
			t.Errorf("%s: %d as exit %d", row.Code, row.HTTP, row.Exit)
		}
	}
}

func TestCatalogueAsData(t *testing.T) {
	data, err := schemas.Errors()
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, Catalogue()); diff != "" {
		t.Errorf("errors.json and the constants (-json +go):\n%s", diff)
	}
}

func TestUnknownCodeReadsAsDefect(t *testing.T) {
	c := Code("NO_SUCH_CODE")
	if c.Known() || c.HTTP() != 500 || c.Exit() != ExitDefect {
		t.Errorf("known %v, http %d, exit %d", c.Known(), c.HTTP(), c.Exit())
	}
}

func TestExitCode(t *testing.T) {
	missing := Errorf(ExecNotStarted, "no such program")
	missing.Errno = "ENOENT"
	denied := Errorf(ExecNotStarted, "not executable")
	denied.Errno = "EACCES"
	for want, e := range map[int]*Error{
		ExitNoCommand:     missing,
		ExitNotExecutable: denied,
		ExitNotFound:      {Code: PathNotFound, Errno: "ENOENT"},
	} {
		if got := e.ExitCode(); got != want {
			t.Errorf("%v: exit %d, want %d", e, got, want)
		}
	}
}

func TestErrorsAreFound(t *testing.T) {
	cause := errors.New("dial unix: connection refused")
	err := fmt.Errorf("start: %w", Errorf(PodmanUnavailable, "no answer within %d s", 2).WithCause(cause).WithHint("start the service"))
	if CodeOf(err) != PodmanUnavailable || CodeOf(cause) != Internal || CodeOf(nil) != "" {
		t.Error("CodeOf is wrong")
	}
	if !errors.Is(err, &Error{Code: PodmanUnavailable}) || errors.Is(err, &Error{Code: Internal}) || !errors.Is(err, cause) {
		t.Error("errors.Is is wrong")
	}
	if e := AsError(cause); e.Code != Internal || strings.Contains(e.Error(), "refused") {
		t.Errorf("a foreign error shows its text: %v", e)
	}
	if got := Validate("no-such-schema", nil); !errors.Is(got, fs.ErrNotExist) {
		t.Errorf("got %v", got)
	}
}

func TestInvalidSortsAndBounds(t *testing.T) {
	var vs []Violation
	for i := range 40 {
		vs = append(vs, Violation{Pointer: fmt.Sprintf("/k%02d", 39-i), Rule: "unknown key"})
	}
	e := Invalid(append(vs, vs[0])...)
	if len(e.Violations) != MaxViolations || e.More != 8 || e.Violations[0].Pointer != "/k00" || e.Violations[31].Pointer != "/k31" {
		t.Errorf("got %d, %d more, first %v", len(e.Violations), e.More, e.Violations[0])
	}
	if vs[0].Pointer != "/k39" {
		t.Error("the caller's slice was sorted")
	}
	if !strings.HasSuffix(e.Error(), "; and 8 more") {
		t.Errorf("got %q", e.Error())
	}
}
