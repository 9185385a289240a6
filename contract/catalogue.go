package contract

import "slices"

// Class groups codes by what a caller can do about them. The names are those of
// the canonical status codes, spelled out.
type Class string

// The classes.
const (
	InvalidArgument    Class = "invalid argument"
	ResourceExhausted  Class = "resource exhausted"
	ClassDenied        Class = "permission denied"
	NotFound           Class = "not found"
	FailedPrecondition Class = "failed precondition"
	Unavailable        Class = "unavailable"
	DeadlineExceeded   Class = "deadline exceeded"
	Aborted            Class = "aborted"
	ClassInternal      Class = "internal"
)

// Exit codes of the programs that realm ships, beyond a command's own.
const (
	ExitDefect        = 1
	ExitUsage         = 2 // usage, or a document that is not valid
	ExitRefused       = 3
	ExitNotFound      = 4
	ExitConflict      = 5
	ExitDeadline      = 124
	ExitFailed        = 125 // realm or Podman failed
	ExitNotExecutable = 126
	ExitNoCommand     = 127
)

// Row is one row of the error catalogue.
type Row struct {
	Code   Code   `json:"code"`
	Reason string `json:"reason"` // fixed text; the detail of an error is separate
	Class  Class  `json:"class"`
	HTTP   int    `json:"http"`
	Exit   int    `json:"exit"`
	// ExitNotFound replaces Exit when the error's errno is ENOENT.
	ExitNotFound int `json:"exitNotFound,omitempty"`
}

var catalogue = [...]Row{
	{SchemaInvalid, "a document does not match its schema", InvalidArgument, 400, ExitUsage, 0},
	{LimitExceeded, "a size, depth, count or space limit is reached", ResourceExhausted, 413, ExitUsage, 0},
	{PathRefused, "the path rules refuse this path", ClassDenied, 403, ExitRefused, 0},
	{PathNotFound, "nothing is at this path", NotFound, 404, ExitNotFound, 0},
	{WriteConflict, "the file is not the one the caller read", FailedPrecondition, 409, ExitConflict, 0},
	{ShellNotAllowed, "the policy does not allow a shell", ClassDenied, 403, ExitRefused, 0},
	{EgressRefused, "the destination is not on the allowlist", ClassDenied, 403, ExitRefused, 0},
	{PermissionDenied, "a rule or a person denied the call", ClassDenied, 403, ExitRefused, 0},
	{PermissionUnavailable, "nobody decided in time, so the call did not run", Unavailable, 503, ExitRefused, 0},
	{QueueTimeout, "the call waited longer than the queue budget", DeadlineExceeded, 504, ExitDeadline, 0},
	{StartupTimeout, "the session was not ready within the startup budget", DeadlineExceeded, 504, ExitDeadline, 0},
	{ExecTimeout, "the command ran longer than its time limit", DeadlineExceeded, 504, ExitDeadline, 0},
	{ExecNotStarted, "the command could not be started", FailedPrecondition, 422, ExitNotExecutable, ExitNoCommand},
	{SessionNotFound, "no such session", NotFound, 404, ExitNotFound, 0},
	{SessionState, "the session is not in a state for this call", FailedPrecondition, 409, ExitConflict, 0},
	{SessionLost, "the session ended without an answer to this call", Aborted, 500, ExitFailed, 0},
	{ImageUnavailable, "the image is not here and could not be pulled", NotFound, 424, ExitFailed, 0},
	{PodmanUnavailable, "no Podman service answers, or it failed a request", Unavailable, 503, ExitFailed, 0},
	{PodmanUnsupportedVersion, "this Podman version is not supported", FailedPrecondition, 501, ExitFailed, 0},
	{IsolationUnproven, "a probe inside the session reached what it must not", FailedPrecondition, 500, ExitFailed, 0},
	{Internal, "a defect of realm", ClassInternal, 500, ExitDefect, 0},
}

// Catalogue returns the 21 rows in their order.
func Catalogue() []Row { return slices.Clone(catalogue[:]) }

// row returns the row of c. A code that is not in the catalogue is a defect of
// realm and reads as one.
func (c Code) row() Row {
	for _, r := range catalogue {
		if r.Code == c {
			return r
		}
	}
	return catalogue[len(catalogue)-1]
}

// Known reports whether c is in the catalogue.
func (c Code) Known() bool { return c.row().Code == c }

// Reason is the catalogue's fixed text.
func (c Code) Reason() string { return c.row().Reason }

// Class says what kind of failure c is.
func (c Code) Class() Class { return c.row().Class }

// HTTP is the status with which a response carries c.
func (c Code) HTTP() int { return c.row().HTTP }

// Exit is the exit code of a program that ends because of c.
func (c Code) Exit() int { return c.row().Exit }
