package realm_test

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// What no file of the tree may hold. The expressions are put together from
// pieces, so that this file does not match itself.
var forbidden = map[string]*regexp.Regexp{
	"a path of one machine":   regexp.MustCompile(`\.\./` + `shared\b|(^|[^\w.])/` + `work/(main|shared|\.)`),
	"a package server's name": regexp.MustCompile(`(` + strings.Join([]string{"proxy.golang", "sum.golang", "deb.debian", "security.debian", "registry.npmjs", "files.pythonhosted"}, `|`) + `)\.` + `(org|net)`),
	"a note to self":          regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`),
}

func TestTree(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("not a git checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(name)
		if err != nil || bytes.IndexByte(data, 0) >= 0 {
			continue // removed but not committed yet, a link, or not text
		}
		for what, expression := range forbidden {
			if match := expression.Find(data); match != nil {
				t.Errorf("%s holds %s: %q", name, what, match)
			}
		}
	}
}

func TestForbiddenMatches(t *testing.T) {
	for what, text := range map[string]string{
		"a path of one machine":   "see ../" + "shared/design",
		"a package server's name": "http://deb.debian" + ".org/debian",
		"a note to self":          "// TO" + "DO: later",
	} {
		if !forbidden[what].MatchString(text) {
			t.Errorf("%q is not found", text)
		}
	}
}
