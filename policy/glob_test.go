package policy

import (
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

// matches reports whether any alternative of a pattern matches a name.
func matches(t testing.TB, pattern, name string, exact bool) bool {
	t.Helper()
	globs, err := parseGlob(pattern)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	segments, err := splitName(name)
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	return slices.ContainsFunc(globs, func(g glob) bool { return g.match(segments, exact) })
}

func TestGlobMatch(t *testing.T) {
	tests := []struct {
		pattern, name string
		exact, fold   bool
	}{
		{"a", "a", true, true},
		{"a", "A", false, true},
		{"a", "b/a", false, false},
		{"**/a", "a", true, true},
		{"**/a", "x/y/a", true, true},
		{"a/**", "a", true, true},
		{"a/**", "a/b/c", true, true},
		{"a/**", "ab", false, false},
		{"a/**/b", "a/b", true, true},
		{"a/**/b", "a/x/y/b", true, true},
		{"*.go", "x.go", true, true},
		{"*.go", "d/x.go", false, false},
		{"*", ".hidden", true, true},
		{"?", "é", true, true},
		{"?", "e\u0301", false, false},
		{"?", "\xff", true, true},
		{"[a-c]x", "Bx", false, true},
		{"x[!a]", "XA", false, true}, // its variant xA is matched
		{"[!a]", "a", false, true},   // so is A, which the pattern does name
		{"a{b,c/d}", "ab", true, true},
		{"a{b,c/d}", "aC/d", false, true},
		{"a{,b{1,2}}", "ab2", true, true},
		{`\*`, "*", true, true},
		{`\*`, "x", false, false},
		{`[\-\]]`, "]", true, true},
		{"s", "\u017f", false, true}, // long s
		{"k", "\u212a", false, true}, // Kelvin sign
		{"é", "e\u0301", false, false},
		{"a*b*c", "a" + strings.Repeat("b", 300) + "c", true, true},
	}
	for _, test := range tests {
		if got := matches(t, test.pattern, test.name, true); got != test.exact {
			t.Errorf("%q on %q, exact: %t", test.pattern, test.name, got)
		}
		if got := matches(t, test.pattern, test.name, false); got != test.fold {
			t.Errorf("%q on %q, any case: %t", test.pattern, test.name, got)
		}
	}
}

func TestGlobRefused(t *testing.T) {
	for _, pattern := range []string{
		"", "/a", "~/a", "a/", "a//b", ".", "..", "a/..", "./a", `\.\.`, "a**", "**b", "***",
		"[", "[]", "[a", "[b-a]", "[a-]", "[]a]", "[a/b]", "[a,b]", "{a", "a}", "{a,b", "{a,}/b", `a\`, `a\/b`,
		"a\x00", "a\nb", "\xff", strings.Repeat("a", maxGlobBytes+1), strings.Repeat("a/", maxGlobSegments) + "a",
		strings.Repeat("{a,b}", 7), "{{{{{{{{{a}}}}}}}}}", "{../x,y}",
	} {
		if _, err := parseGlob(pattern); err == nil {
			t.Errorf("%q was accepted", pattern)
		}
	}
}

func TestGlobLiteral(t *testing.T) {
	for pattern, want := range map[string]string{
		"a/b": "a/b", `\[x\]`: "[x]", "a*": "", "**/a": "", "{a}/b": "a/b",
	} {
		globs, err := parseGlob(pattern)
		if err != nil || len(globs) != 1 || globs[0].literal != want {
			t.Errorf("%q: %v, literal of %v, want %q", pattern, err, globs, want)
		}
	}
}

func TestGlobPrune(t *testing.T) {
	for _, test := range []struct {
		pattern, dir string
		want         bool
	}{
		{"a/b/c", "", true},
		{"a/b/c", "a", true},
		{"a/b/c", "A/B", true},
		{"a/b/c", "a/b/c", false},
		{"a/b/c", "x", false},
		{"**/x", "a/b", true},
		{"a/**", "b", false},
		{"a/**", "a/b", true},
		{"a/*.go", "a", true},
		{"*.go", "d", false},
	} {
		globs, err := parseGlob(test.pattern)
		if err != nil {
			t.Fatal(err)
		}
		name, err := splitName(test.dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := globs[0].couldMatchBelow(name); got != test.want {
			t.Errorf("%q below %q: %t", test.pattern, test.dir, got)
		}
	}
}

// FuzzGlob holds the dialect against doublestar's: a pattern that we accept
// means the same there, any case of a matching name matches too, and a walk that
// prunes misses nothing.
func FuzzGlob(f *testing.F) {
	for _, s := range [][2]string{
		{"**/*.{go,mod}", "a/b.go"}, {"a/**/b", "a/b"}, {"[!a-c]?*", "xyz"}, {`\{x`, "{x"}, {"a{b,{c,d}}", "ad"}, {"**", ""},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		globs, err := parseGlob(pattern)
		if err != nil {
			return
		}
		segments, err := splitName(name)
		if err != nil || len(segments) == 0 {
			return // doublestar takes the root for an empty segment
		}
		texts := make([]string, len(segments))
		for i := range segments {
			texts[i] = segments[i].text
		}
		clean := strings.Join(texts, "/")
		got := slices.ContainsFunc(globs, func(g glob) bool { return g.match(segments, true) })
		want, err := doublestar.Match(pattern, clean)
		if err != nil {
			t.Fatalf("doublestar refuses %q: %v", pattern, err)
		}
		if got != want {
			t.Fatalf("%q on %q: %t, doublestar says %t", pattern, clean, got, want)
		}
		if !got {
			return
		}
		for _, variant := range []string{strings.ToUpper(clean), strings.ToLower(clean)} {
			if strings.EqualFold(variant, clean) && !matches(t, pattern, variant, false) {
				t.Errorf("%q matches %q but not %q", pattern, clean, variant)
			}
		}
		for i := range segments {
			if !slices.ContainsFunc(globs, func(g glob) bool { return g.couldMatchBelow(segments[:i]) }) {
				t.Errorf("%q: a walk would not enter %q", pattern, texts[:i])
			}
		}
	})
}
