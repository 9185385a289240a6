package policy

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a pattern. They keep matching cheap whatever the names are: a name
// of n segments costs at most n × maxGlobSegments segment comparisons.
const (
	maxGlobBytes        = 1024
	maxGlobSegments     = 32
	maxGlobAlternatives = 64
)

// glob is one compiled pattern without alternatives. The dialect is the strict
// part of doublestar's: `*`, `?`, `[a-z]`, `[!a]`, `{a,b}`, `\` escapes the next
// character, `**` is a whole segment. What doublestar reads in a surprising way
// (`a**`, an empty segment, an open brace) is refused when it is parsed.
type glob struct {
	segments []segment
	literal  string // the one name it matches, "" when there are wildcards
}

type segment struct {
	deep   bool // `**`: any number of segments
	tokens []token
}

type tokenKind uint8

const (
	tokenRune tokenKind = iota
	tokenAny            // ?
	tokenStar           // *
	tokenClass
)

type token struct {
	kind   tokenKind
	r      rune
	folded rune
	ranges [][2]rune
	negate bool
}

// parseGlob compiles a pattern into its alternatives. The error's text is a
// fixed phrase that holds nothing of the pattern.
func parseGlob(pattern string) ([]glob, error) {
	switch {
	case pattern == "":
		return nil, errors.New("must not be empty")
	case len(pattern) > maxGlobBytes:
		return nil, errors.New("is longer than 1024 bytes")
	case !utf8.ValidString(pattern):
		return nil, errors.New("is not valid UTF-8")
	case strings.ContainsFunc(pattern, unicode.IsControl):
		return nil, errors.New("contains a control character")
	case strings.HasPrefix(pattern, "/"):
		return nil, errors.New("must be relative to the workspace, not absolute")
	case strings.HasPrefix(pattern, "~/"):
		return nil, errors.New("must be relative to the workspace: ~ is not expanded")
	}
	texts, err := expandBraces(pattern)
	if err != nil {
		return nil, err
	}
	globs := make([]glob, 0, len(texts))
	for _, text := range texts {
		g, err := parseAlternative(text)
		if err != nil {
			return nil, err
		}
		globs = append(globs, g)
	}
	return globs, nil
}

// parseAlternative compiles a pattern that has no braces left.
func parseAlternative(text string) (glob, error) {
	parts := strings.Split(text, "/")
	if len(parts) > maxGlobSegments {
		return glob{}, errors.New("has more than 32 segments")
	}
	g := glob{segments: make([]segment, 0, len(parts))}
	var literal []string
	for _, part := range parts {
		switch part {
		case "":
			return glob{}, errors.New("has an empty segment, or a slash at its end")
		case ".", "..":
			return glob{}, errors.New("has a . or .. segment")
		case "**":
			g.segments = append(g.segments, segment{deep: true})
			continue
		}
		s, name, err := parseSegment(part)
		if err != nil {
			return glob{}, err
		}
		g.segments = append(g.segments, s)
		if name != "" {
			literal = append(literal, name)
		}
	}
	if len(literal) == len(parts) {
		g.literal = strings.Join(literal, "/")
	}
	return g, nil
}

// parseSegment compiles one segment. name is what it matches when it has no
// wildcard.
func parseSegment(text string) (s segment, name string, err error) {
	runes := []rune(text)
	plain := true
	for i := 0; i < len(runes); {
		t := token{kind: tokenRune, r: runes[i]}
		next := i + 1
		switch runes[i] {
		case '*':
			if next < len(runes) && runes[next] == '*' {
				return segment{}, "", errors.New("has ** beside other characters: ** must be a whole segment")
			}
			t.kind = tokenStar
		case '?':
			t.kind = tokenAny
		case '[':
			if t, next, err = parseClass(runes, i); err != nil {
				return segment{}, "", err
			}
		case '\\':
			if next == len(runes) {
				return segment{}, "", errors.New("has a backslash that escapes nothing")
			}
			t.r = runes[next]
			next++
		}
		t.folded = foldRune(t.r)
		plain = plain && t.kind == tokenRune
		s.tokens = append(s.tokens, t)
		i = next
	}
	if !plain {
		return s, "", nil
	}
	var b strings.Builder
	for _, t := range s.tokens {
		b.WriteRune(t.r)
	}
	if name = b.String(); name == "." || name == ".." {
		return segment{}, "", errors.New("has a . or .. segment")
	}
	return s, name, nil
}

// parseClass compiles the character class that starts at runes[i] and returns
// where it ends.
func parseClass(runes []rune, i int) (token, int, error) {
	bad := errors.New("has a malformed character class")
	t := token{kind: tokenClass}
	i++
	if i < len(runes) && (runes[i] == '!' || runes[i] == '^') {
		t.negate = true
		i++
	}
	// one reads a character of the class; those with a meaning must be escaped.
	one := func() (r rune, ok bool) {
		if i == len(runes) || strings.ContainsRune("[]-{},", runes[i]) {
			return 0, false
		}
		if runes[i] == '\\' {
			if i++; i == len(runes) {
				return 0, false
			}
		}
		r = runes[i]
		i++
		return r, true
	}
	for i < len(runes) && runes[i] != ']' {
		lo, ok := one()
		if !ok {
			return t, 0, bad
		}
		hi := lo
		if i < len(runes) && runes[i] == '-' {
			i++
			if hi, ok = one(); !ok || hi < lo {
				return t, 0, bad
			}
		}
		t.ranges = append(t.ranges, [2]rune{lo, hi})
	}
	if i == len(runes) || len(t.ranges) == 0 {
		return t, 0, bad
	}
	return t, i + 1, nil
}

// matchesRoot reports whether g matches the empty name.
func (g *glob) matchesRoot() bool {
	return !slices.ContainsFunc(g.segments, func(s segment) bool { return !s.deep })
}

// positions is a set of places in a glob's segments, as bits. Bit len(segments)
// means that all of the glob has matched.
type positions uint64

// start returns where a match can stand before the first segment of a name.
func (g *glob) start() positions { return g.closure(1) }

// closure adds the places that `**` reaches by standing for nothing.
func (g *glob) closure(p positions) positions {
	for i := range g.segments {
		if p&(1<<i) != 0 && g.segments[i].deep {
			p |= 1 << (i + 1)
		}
	}
	return p
}

// step moves every place over one segment of a name.
func (g *glob) step(p positions, n *nameSegment, exact bool) positions {
	var out positions
	for i := range g.segments {
		if p&(1<<i) == 0 {
			continue
		}
		switch s := &g.segments[i]; {
		case s.deep:
			out |= 1 << i
		case s.match(n, exact):
			out |= 1 << (i + 1)
		}
	}
	return g.closure(out)
}

// done reports whether all of g has matched at p.
func (g *glob) done(p positions) bool { return p&(1<<len(g.segments)) != 0 }

// match reports whether g matches the whole name. Unless exact, it does so when
// any case variant of the name matches.
func (g *glob) match(name []nameSegment, exact bool) bool {
	p := g.start()
	for i := range name {
		if p = g.step(p, &name[i], exact); p == 0 {
			return false
		}
	}
	return g.done(p)
}

// covers reports whether g matches name itself, and whether it matches a
// directory above it; in any case, but not where the last segment is one of except.
func (g *glob) covers(name []nameSegment, except []string) (self, above bool) {
	p := g.start()
	for i := range name {
		if p = g.step(p, &name[i], false); p == 0 {
			break
		}
		if !g.done(p) || slices.Contains(except, name[i].text) {
			continue
		}
		if i == len(name)-1 {
			self = true
		} else {
			above = true
		}
	}
	return self, above
}

// couldMatchBelow reports whether g can match a name below dir.
func (g *glob) couldMatchBelow(dir []nameSegment) bool {
	p := g.start()
	for i := range dir {
		p = g.step(p, &dir[i], false)
	}
	return p&^(1<<len(g.segments)) != 0
}
