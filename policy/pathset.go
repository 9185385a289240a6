package policy

import (
	"slices"
	"strconv"
)

// Entry is one protect or hide rule, as the mounts need it. A rule whose
// pattern has alternatives ({a,b}) is several entries.
type Entry struct {
	Rule    string // its name in verdicts: protect:.husky when built in, /protect/0 when of the policy
	Pattern string
	Literal string // the one path it names, "" when the pattern has wildcards
	BuiltIn bool
	Content bool // applies to a file only when HoldsToken says so

	glob   glob
	except []string
}

// PathSet is a list of entries. An entry covers what it matches and everything
// below that. Names match in any letter case; the exceptions of a built-in
// entry only exactly.
type PathSet struct {
	entries []Entry
}

// Entries returns the entries in their order.
func (s *PathSet) Entries() []Entry { return slices.Clone(s.entries) }

// BuiltIn returns the entries that realm brings.
func (s *PathSet) BuiltIn() *PathSet { return s.filter(true) }

// Own returns the entries of the policy.
func (s *PathSet) Own() *PathSet { return s.filter(false) }

func (s *PathSet) filter(builtIn bool) *PathSet {
	out := new(PathSet)
	for _, e := range s.entries {
		if e.BuiltIn == builtIn {
			out.entries = append(out.entries, e)
		}
	}
	return out
}

// Match returns the first entry that covers rel. A name that cannot be one of
// the workspace (absolute, with `..`) matches nothing.
func (s *PathSet) Match(rel string) (Entry, bool) {
	name, err := splitName(rel)
	if err != nil {
		return Entry{}, false
	}
	if e := s.first(name); e != nil {
		return *e, true
	}
	return Entry{}, false
}

// MatchSelf returns the first entry that matches rel itself, not a directory
// above it: what a walk asks for each name it finds.
func (s *PathSet) MatchSelf(rel string) (Entry, bool) {
	name, err := splitName(rel)
	if err != nil {
		return Entry{}, false
	}
	for i := range s.entries {
		if self, _ := s.entries[i].covers(name); self {
			return s.entries[i], true
		}
	}
	return Entry{}, false
}

// CouldMatchBelow reports whether an entry could match a name below dir, so
// that a walk need not go where nothing can be.
func (s *PathSet) CouldMatchBelow(dir string) bool {
	name, err := splitName(dir)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.entries, func(e Entry) bool { return e.glob.couldMatchBelow(name) })
}

// first returns the first entry that covers name, nil when none does.
func (s *PathSet) first(name []nameSegment) *Entry {
	for i := range s.entries {
		if _, covered := s.entries[i].covers(name); covered {
			return &s.entries[i]
		}
	}
	return nil
}

// covers reports whether e matches name itself, and whether it covers it at
// all. A directory holds no token: a content entry covers nothing below it.
func (e *Entry) covers(name []nameSegment) (self, covered bool) {
	self, above := e.glob.covers(name, e.except)
	return self, self || above && !e.Content
}

// entriesOf compiles one pattern that is known to be valid.
func entriesOf(globs []glob, e Entry) []Entry {
	out := make([]Entry, 0, len(globs))
	for _, g := range globs {
		e.glob, e.Literal = g, g.literal
		out = append(out, e)
	}
	return out
}

// builtInEntries compiles a pattern of builtin.go. One that does not parse is
// a defect that the first test finds.
func builtInEntries(e Entry) []Entry {
	globs, err := parseGlob(e.Pattern)
	if err != nil {
		panic("policy: built-in pattern " + e.Pattern + ": " + err.Error())
	}
	e.BuiltIn = true
	return entriesOf(globs, e)
}

// gitSet returns what is read-only of the workspace's git directory.
func gitSet(write bool) *PathSet {
	patterns, rule := []string{".git"}, "git:read"
	if write {
		patterns, rule = gitReadOnly, "git:write"
	}
	s := new(PathSet)
	for _, p := range patterns {
		s.entries = append(s.entries, builtInEntries(Entry{Rule: rule, Pattern: p})...)
	}
	return s
}

// protectSet returns the built-in protect list without unprotect.
func protectSet(unprotect []string) *PathSet {
	s := new(PathSet)
	for _, p := range builtinProtect {
		if !slices.Contains(unprotect, p) {
			s.entries = append(s.entries, builtInEntries(Entry{Rule: "protect:" + p, Pattern: p})...)
		}
	}
	return s
}

// hideSet returns the built-in hide list.
func hideSet() *PathSet {
	s := new(PathSet)
	for _, h := range builtinHide {
		e := Entry{Rule: "hide:" + h.pattern, Pattern: h.pattern, Content: h.content, except: h.except}
		s.entries = append(s.entries, builtInEntries(e)...)
	}
	return s
}

// addOwn appends a pattern of the policy.
func (s *PathSet) addOwn(key string, index int, pattern string, globs []glob) {
	rule := "/" + key + "/" + strconv.Itoa(index)
	s.entries = append(s.entries, entriesOf(globs, Entry{Rule: rule, Pattern: pattern})...)
}
