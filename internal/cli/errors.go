package cli

import (
	"errors"
	"fmt"
	"io"

	"realm.dev/contract"
	"realm.dev/internal/term"
)

// usageError is a mistake in the command line. Its text is realm's own.
type usageError struct{ text, hint string }

func (e *usageError) Error() string { return e.text }

// usagef makes a usageError. The format must not be given what the person typed.
func usagef(format string, args ...any) *usageError {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

func (e *usageError) withHint(format string, args ...any) *usageError {
	e.hint = fmt.Sprintf(format, args...)
	return e
}

// exitError ends the program with a code that is not the failure's own text: a
// command's exit code, or an answer such as "deny" that is already printed.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// exitWith returns an error that makes the program exit with code; nil for 0.
func exitWith(code int) error {
	if code == 0 {
		return nil
	}
	return &exitError{code}
}

// fileError is a document that is not valid, in a file of a name and with the
// place of each violation in it.
type fileError struct {
	err    *contract.Error
	places []string // one per violation: "policy.yaml:3:7"
}

func (e *fileError) Error() string { return e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// exitCode is the exit code for err.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return contract.ExitUsage
	}
	e := contract.AsError(err)
	return e.ExitCode()
}

// report writes err for people.
func report(w io.Writer, err error) {
	if err == nil {
		return
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		say(w, "%s", e.text)
		hint(w, e.hint)
		return
	}
	e := contract.AsError(err)
	if f, ok := errors.AsType[*fileError](err); ok {
		reportFile(w, f)
	} else {
		reportCoded(w, e)
	}
	hint(w, e.Hint)
}

// reportCoded writes the code, what happened here (the catalogue's reason where
// nothing more is known), and each violation on a line of its own.
func reportCoded(w io.Writer, e *contract.Error) {
	what := e.Detail
	if what == "" {
		what = e.Reason
	}
	say(w, "%s: %s", e.Code, what)
	for _, v := range e.Violations {
		say(w, "  %s: %s", pointerName(v.Pointer), v.Rule)
	}
	more(w, e)
}

// reportFile writes violations the way compilers do, so that editors jump to them.
func reportFile(w io.Writer, f *fileError) {
	for i, v := range f.err.Violations {
		say(w, "%s: %s: %s", f.places[i], pointerName(v.Pointer), v.Rule)
	}
	more(w, f.err)
}

// pointerName names the whole document, whose pointer is empty.
func pointerName(pointer string) string {
	if pointer == "" {
		return "the document"
	}
	return pointer
}

func more(w io.Writer, e *contract.Error) {
	if e.More > 0 {
		say(w, "  and %d more", e.More)
	}
}

// say writes one line of realm's own.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(w, "realm: "+term.Escape(fmt.Sprintf(format, args...)))
}

func hint(w io.Writer, text string) {
	if text != "" {
		say(w, "hint: %s", text)
	}
}
