package term

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape returns s fit for one line of a terminal: control characters, line
// and paragraph separators, bidirectional overrides, invisible characters and
// bytes that are not UTF-8 are shown as \xNN, \uNNNN or \UNNNNNNNN.
func Escape(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		appendRune(&b, r, s[:n])
		s = s[n:]
	}
	return b.String()
}

// appendRune writes one decoded rune, whose bytes are raw, in its harmless form.
func appendRune(b *strings.Builder, r rune, raw string) {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		fmt.Fprintf(b, `\x%02x`, raw[0])
	case unicode.IsGraphic(r):
		b.WriteString(raw)
	case r < 0x80:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// Escaper is an io.Writer for the output of a program that was not given the
// terminal it is shown on. Lines and tabs stay; a carriage return, which would
// let later text hide earlier text, reads as the end of a line; everything else
// is as with Escape.
type Escaper struct {
	w       io.Writer
	partial []byte // the beginning of a rune whose end has not come yet
	cr      bool   // the last character was a carriage return
}

// NewEscaper returns an Escaper that writes to w.
func NewEscaper(w io.Writer) *Escaper { return &Escaper{w: w} }

// Write implements io.Writer. All of p is taken unless w fails.
func (e *Escaper) Write(p []byte) (int, error) {
	text := p
	if len(e.partial) > 0 {
		text = append(e.partial, p...)
		e.partial = nil
	}
	var b strings.Builder
	for len(text) > 0 {
		if text[0] >= utf8.RuneSelf && !utf8.FullRune(text) {
			e.partial = append([]byte(nil), text...)
			break
		}
		r, n := utf8.DecodeRune(text)
		e.append(&b, r, text[:n])
		text = text[n:]
	}
	if _, err := io.WriteString(e.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (e *Escaper) append(b *strings.Builder, r rune, raw []byte) {
	after := e.cr
	e.cr = r == '\r'
	switch {
	case r == '\r':
		b.WriteByte('\n')
	case r == '\n' && after: // the end of a "\r\n" that is already written
	case r == '\n', r == '\t':
		b.WriteByte(byte(r))
	default:
		appendRune(b, r, string(raw))
	}
}

// Flush writes what an unfinished rune at the end of the output left over.
func (e *Escaper) Flush() error {
	rest := e.partial
	e.partial = nil
	_, err := io.WriteString(e.w, Escape(string(rest)))
	return err
}
