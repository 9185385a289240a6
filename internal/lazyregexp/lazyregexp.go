// Package lazyregexp compiles regular expressions when they are first used: a
// command that starts in milliseconds cannot compile every expression of the
// program before main.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is an expression that is compiled once, at its first use.
type Regexp struct {
	compiled func() *regexp.Regexp
}

// New returns the expression s. One that does not compile panics at its first
// use: tests must use each.
func New(s string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(s) })}
}

// MatchString reports whether s matches.
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }
