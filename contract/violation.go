package contract

import (
	"slices"
	"strings"
)

// fault is one way in which a document is wrong. Its path holds keys of the
// input; only violation turns it into something that may be shown.
type fault struct {
	path []string
	rule string // a fixed phrase, made from the schema at most
	size bool   // a size, count or depth, which reads LIMIT_EXCEEDED
}

// at puts the fault below further keys.
func (f fault) at(prefix ...string) fault {
	f.path = slices.Concat(prefix, f.path)
	return f
}

// violation names as much of the path as may be shown. Beyond that it tells the
// parent, so that neither a secret used as a key nor a terminal escape comes back.
func (f fault) violation() Violation {
	var pointer strings.Builder
	for _, key := range f.path {
		if !printableKey(key) {
			return Violation{Pointer: pointer.String(), Rule: f.rule + " " + unprintableKey}
		}
		pointer.WriteByte('/')
		pointer.WriteString(key)
	}
	return Violation{Pointer: pointer.String(), Rule: f.rule}
}

const (
	unprintableKey = "(unprintable key)"
	maxKey         = 64
	maxPlainKey    = 16
)

// printableKey reports whether a key may be named: short, of plain characters,
// and not shaped like a credential.
func printableKey(key string) bool {
	if key == "" || len(key) > maxKey {
		return false
	}
	digit := false
	for _, c := range []byte(key) {
		switch {
		case c >= '0' && c <= '9':
			digit = true
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return !credentialKey(key, digit)
}

// credentialPrefixes start the tokens of well-known issuers.
var credentialPrefixes = []string{
	"AIza", "AKIA", "ASIA", "eyJ", "gh", "github_pat_", "glpat-", "hf_", "npm_", "pypi-", "sk-", "sk_", "xox",
}

// credentialKey errs on the side of silence: no key of ours has sixteen
// characters with a digit among them.
func credentialKey(key string, digit bool) bool {
	if digit && len(key) >= maxPlainKey {
		return true
	}
	return slices.ContainsFunc(credentialPrefixes, func(prefix string) bool {
		return len(key) >= maxPlainKey && strings.HasPrefix(key, prefix)
	})
}

type faults []fault

// err is nil when there is no fault.
func (fs faults) err() error {
	if len(fs) == 0 {
		return nil
	}
	vs := make([]Violation, len(fs))
	code := LimitExceeded
	for i, f := range fs {
		vs[i] = f.violation()
		if !f.size {
			code = SchemaInvalid
		}
	}
	return violated(code, vs)
}

// Invalid is the error of a document that breaks rules which its schema cannot
// say. Each rule must be a fixed phrase.
func Invalid(violations ...Violation) *Error {
	return violated(SchemaInvalid, slices.Clone(violations))
}

func violated(code Code, vs []Violation) *Error {
	slices.SortFunc(vs, func(a, b Violation) int {
		if c := strings.Compare(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		return strings.Compare(a.Rule, b.Rule)
	})
	vs = slices.Compact(vs)
	e := &Error{Code: code, Reason: code.Reason(), Violations: vs}
	if len(vs) > MaxViolations {
		e.More = len(vs) - MaxViolations
		e.Violations = slices.Clone(vs[:MaxViolations])
	}
	return e
}
