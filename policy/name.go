package policy

import (
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameSegment is one segment of a workspace-relative name, ready to match.
type nameSegment struct {
	text   string
	runes  []rune
	folded []rune
}

// splitName cuts a workspace-relative name into segments. Empty and `.`
// segments fall away: the kernel ignores them too. The root has none.
func splitName(rel string) ([]nameSegment, error) {
	switch {
	case strings.HasPrefix(rel, "/"):
		return nil, errors.New("the path is absolute")
	case strings.ContainsRune(rel, 0):
		return nil, errors.New("the path contains a NUL")
	}
	var name []nameSegment
	for part := range strings.SplitSeq(rel, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			return nil, errors.New("the path has a .. segment")
		}
		name = append(name, newNameSegment(part))
	}
	return name, nil
}

// newNameSegment decodes text. Linux names are bytes: one that is not UTF-8 gets
// a number of its own beyond Unicode, so that no two of them look the same.
func newNameSegment(text string) nameSegment {
	n := nameSegment{text: text}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && size == 1 {
			r = unicode.MaxRune + 1 + rune(text[i])
		}
		n.runes = append(n.runes, r)
		n.folded = append(n.folded, foldRune(r))
		i += size
	}
	return n
}

// foldRune returns the smallest rune that is r but for letter case (Unicode
// simple folding), so that `k`, `K` and the Kelvin sign are one.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// match reports whether s matches n. `*` needs one step back at most, so the
// work is bounded by the product of the two lengths.
func (s *segment) match(n *nameSegment, exact bool) bool {
	star, mark := -1, 0
	t, i := 0, 0
	for i < len(n.runes) {
		switch {
		case t < len(s.tokens) && s.tokens[t].kind == tokenStar:
			star, mark = t, i
			t++
		case t < len(s.tokens) && s.tokens[t].match(n.runes[i], n.folded[i], exact):
			t++
			i++
		case star >= 0:
			mark++
			t, i = star+1, mark
		default:
			return false
		}
	}
	for t < len(s.tokens) && s.tokens[t].kind == tokenStar {
		t++
	}
	return t == len(s.tokens)
}

// match reports whether t matches r. Unless exact, any case variant of r does.
func (t *token) match(r, folded rune, exact bool) bool {
	switch t.kind {
	case tokenAny:
		return true
	case tokenStar: // segment.match takes it
	case tokenRune:
		return t.r == r || !exact && t.folded == folded
	case tokenClass:
		if t.contains(r) != t.negate {
			return true
		}
		if exact {
			return false
		}
		for v := unicode.SimpleFold(r); v != r; v = unicode.SimpleFold(v) {
			if t.contains(v) != t.negate {
				return true
			}
		}
	}
	return false
}

func (t *token) contains(r rune) bool {
	return slices.ContainsFunc(t.ranges, func(x [2]rune) bool { return x[0] <= r && r <= x[1] })
}
