package term_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"realm.dev/internal/term"
)

func TestEscape(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "a b-c/ä/日本", "a b-c/ä/日本"},
		{"clear-screen", "\x1b[2J", `\x1b[2J`},
		{"clipboard", "\x1b]52;c;cm0=\a", `\x1b]52;c;cm0=\x07`},
		{"c1-csi", "\u009b31m", `\u009b31m`},
		{"right-to-left", "gpj\u202eexe", `gpj\u202eexe`},
		{"invisible", "a\u200bb\ufeff", `a\u200bb\ufeff`},
		{"tag", "\U000e0041", `\U000e0041`},
		{"separators", "a\u2028b\u2029", `a\u2028b\u2029`},
		{"line", "a\nb\tc\rd", `a\x0ab\x09c\x0dd`},
		{"not-utf8", "a\xffb\xc0\xae", `a\xffb\xc0\xae`},
		{"nul-and-del", "\x00\x7f", `\x00\x7f`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := term.Escape(tt.in); got != tt.want {
				t.Errorf("Escape(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestEscaper(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"lines", "a\tb\nc\n", "a\tb\nc\n"},
		{"crlf", "a\r\nb\r\n", "a\nb\n"},
		{"overwrite", "rm -rf /\rls      \n", "rm -rf /\nls      \n"},
		{"title", "\x1b]0;x\a", `\x1b]0;x\x07`},
		{"wide", "日本\u202e", `日本\u202e`},
		{"cut-rune", "a\xe6\x97", `a\xe6\x97`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, step := range []int{1, 2, 3, len(tt.in)} {
				var out bytes.Buffer
				w := term.NewEscaper(&out)
				for in := []byte(tt.in); len(in) > 0; {
					n := min(step, len(in))
					if got, err := w.Write(in[:n]); got != n || err != nil {
						t.Fatalf("Write = %d, %v, want %d", got, err, n)
					}
					in = in[n:]
				}
				if err := w.Flush(); err != nil {
					t.Fatal(err)
				}
				if out.String() != tt.want {
					t.Errorf("in steps of %d: %q, want %q", step, out.String(), tt.want)
				}
			}
		})
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b[31mb\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := term.Escape(s)
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }); i >= 0 || !utf8.ValidString(got) {
			t.Errorf("Escape(%q) = %q is not harmless at %d", s, got, i)
		}
		var out bytes.Buffer
		w := term.NewEscaper(&out)
		for i := range len(s) {
			_, _ = w.Write([]byte{s[i]})
		}
		_ = w.Flush()
		bad := func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }
		if strings.ContainsFunc(out.String(), bad) {
			t.Errorf("Escaper wrote %q", out.String())
		}
	})
}
