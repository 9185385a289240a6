package contract

import (
	"errors"
	"fmt"
	"strings"
)

// Violation is one way in which a document does not match its schema. Rule is
// one of a fixed set of phrases; it never holds a value of the document.
type Violation struct {
	Pointer string `json:"pointer"` // RFC 6901
	Rule    string `json:"rule"`
}

// Error is the only error that crosses a boundary of realm. Detail, Hint and
// Violations are written by realm: no field ever holds a value of the input.
type Error struct {
	Code       Code        `json:"code"`
	Reason     string      `json:"reason"`               // the catalogue's fixed text
	Detail     string      `json:"detail,omitempty"`     // what happened here
	Hint       string      `json:"hint,omitempty"`       // what to do next
	Errno      string      `json:"errno,omitempty"`      // "ENOENT", where a system call failed
	Violations []Violation `json:"violations,omitempty"` // sorted by pointer, at most MaxViolations
	More       int         `json:"more,omitempty"`       // violations beyond those listed

	// Cause is for errors.Is and logs of realm's own making; it is never
	// encoded and never printed by Error.
	Cause error `json:"-"`
}

// MaxViolations bounds Error.Violations; the rest is counted in Error.More.
const MaxViolations = 32

// Errorf makes an Error. The format must not be given values of untrusted input.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Reason: code.Reason(), Detail: fmt.Sprintf(format, args...)}
}

// WithCause attaches the error that led to e.
func (e *Error) WithCause(err error) *Error { e.Cause = err; return e }

// WithHint attaches what the reader can do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// ExitCode is the exit code of a program that ends because of e: that of its
// code, except that a command which is not there reads 127.
func (e *Error) ExitCode() int {
	if row := e.Code.row(); row.ExitNotFound != 0 && e.Errno == "ENOENT" {
		return row.ExitNotFound
	}
	return e.Code.Exit()
}

// Error reads "CODE: detail" and, for schema violations, each pointer with its rule.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	b.WriteString(": ")
	switch {
	case e.Detail != "":
		b.WriteString(e.Detail)
	case len(e.Violations) == 0:
		b.WriteString(e.Reason)
	}
	for i, v := range e.Violations {
		if i > 0 || e.Detail != "" {
			b.WriteString("; ")
		}
		if v.Pointer != "" {
			b.WriteString(v.Pointer + ": ")
		}
		b.WriteString(v.Rule)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "; and %d more", e.More)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an Error of the same code, so that
// errors.Is(err, &Error{Code: X}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Detail == ""
}

// CodeOf returns the code of err: INTERNAL when it has none, "" when err is nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// AsError returns err as an Error. One that has no code is a defect of realm:
// its text stays in Cause and does not reach the reader.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return (&Error{Code: Internal, Reason: Internal.Reason()}).WithCause(err)
}
