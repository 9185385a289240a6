package contract

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	ruleEnd      = "the document ends too early"
	ruleTrailing = "something follows the document"
	ruleSyntax   = "is not JSON here"
	ruleLiteral  = "is not a JSON number"
	ruleControl  = "a string holds a raw control character"
	ruleEscape   = "a string holds an unknown escape"
	ruleSurrgt   = "a string holds half of a surrogate pair"
)

// jsonReader reads one JSON document (RFC 8259), once, into nil, bool, string,
// json.Number, []any and map[string]any. Strings share memory with the text.
type jsonReader struct {
	cursor
	text string
	off  int

	// The position of posOff; it only moves forward.
	posOff int
	pos    Position
}

// readJSON reads text, which textOf has accepted.
func readJSON(text string, marks map[string]Position) (any, *jsonReader, *fault) {
	r := &jsonReader{cursor: cursor{marks: marks}, text: text, pos: Position{Line: 1, Column: 1}}
	v, f := r.value(0)
	if f != nil {
		return nil, r, f
	}
	r.space()
	if r.off < len(r.text) {
		return nil, r, r.fault(ruleTrailing)
	}
	return v, r, nil
}

// here is the position of the offset, which must not be before an earlier one.
func (r *jsonReader) here() Position {
	for _, c := range r.text[r.posOff:r.off] {
		if c == '\n' {
			r.pos.Line++
			r.pos.Column = 1
		} else {
			r.pos.Column++
		}
	}
	r.posOff = r.off
	return r.pos
}

func (r *jsonReader) space() {
	for r.off < len(r.text) {
		switch r.text[r.off] {
		case ' ', '\t', '\r', '\n':
			r.off++
		default:
			return
		}
	}
}

// take skips white space and reports whether c comes next, and skips it.
func (r *jsonReader) take(c byte) bool {
	r.space()
	if r.off < len(r.text) && r.text[r.off] == c {
		r.off++
		return true
	}
	return false
}

func (r *jsonReader) unexpected() *fault {
	if r.off >= len(r.text) {
		return r.fault(ruleEnd)
	}
	return r.fault(ruleSyntax)
}

func (r *jsonReader) value(depth int) (any, *fault) {
	r.space()
	if r.off >= len(r.text) {
		return nil, r.fault(ruleEnd)
	}
	c := r.text[r.off]
	if c == '{' || c == '[' {
		depth++
	}
	if f := r.count(depth); f != nil {
		return nil, f
	}
	switch {
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == '"':
		return r.string()
	case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9':
		return r.number()
	}
	return r.literal()
}

func (r *jsonReader) literal() (any, *fault) {
	rest := r.text[r.off:]
	switch {
	case strings.HasPrefix(rest, "true"):
		r.off += len("true")
		return true, nil
	case strings.HasPrefix(rest, "false"):
		r.off += len("false")
		return false, nil
	case strings.HasPrefix(rest, "null"):
		r.off += len("null")
		return nil, nil
	}
	return nil, r.fault(ruleSyntax)
}

func (r *jsonReader) object(depth int) (any, *fault) {
	r.off++ // {
	obj := make(map[string]any)
	if r.take('}') {
		return obj, nil
	}
	for {
		r.space()
		if r.off >= len(r.text) || r.text[r.off] != '"' {
			return nil, r.unexpected()
		}
		var at Position
		if r.marks != nil {
			at = r.here()
		}
		key, f := r.string()
		if f != nil {
			return nil, f
		}
		r.enterKey(key)
		if _, double := obj[key]; double {
			return nil, r.fault(ruleDouble)
		}
		r.mark(at)
		if !r.take(':') {
			return nil, r.unexpected()
		}
		v, f := r.value(depth)
		if f != nil {
			return nil, f
		}
		obj[key] = v
		r.leave()
		if r.take('}') {
			return obj, nil
		}
		if !r.take(',') {
			return nil, r.unexpected()
		}
	}
}

func (r *jsonReader) array(depth int) (any, *fault) {
	r.off++ // [
	arr := []any{}
	if r.take(']') {
		return arr, nil
	}
	for {
		r.enterItem(len(arr))
		if r.marks != nil {
			r.space()
			r.mark(r.here())
		}
		v, f := r.value(depth)
		if f != nil {
			return nil, f
		}
		arr = append(arr, v)
		r.leave()
		if r.take(']') {
			return arr, nil
		}
		if !r.take(',') {
			return nil, r.unexpected()
		}
	}
}

// number checks the grammar and the magnitude. The text is kept, so that no
// digit is lost; its length and exponent are bounded, so that nobody who makes
// a number of it later pays for 1e1000000000.
func (r *jsonReader) number() (any, *fault) {
	start := r.off
	r.skipByte('-')
	whole := r.skipDigits()
	good := whole == 1 || whole > 1 && r.text[r.off-whole] != '0'
	fraction := r.skipByte('.')
	if fraction {
		good = r.skipDigits() > 0 && good
	}
	exponent := ""
	if r.skipByte('e') || r.skipByte('E') {
		from := r.off
		if !r.skipByte('-') {
			r.skipByte('+')
		}
		good = r.skipDigits() > 0 && good
		exponent = r.text[from:r.off]
	}
	literal := r.text[start:r.off]
	if !good || r.off < len(r.text) && strings.IndexByte(" \t\r\n,]}", r.text[r.off]) < 0 {
		return nil, r.fault(ruleLiteral)
	}
	if !inRange(literal, exponent) {
		return nil, r.fault(ruleNumber)
	}
	return json.Number(literal), nil
}

func inRange(literal, exponent string) bool {
	if len(literal) > maxNumber {
		return false
	}
	if exponent == "" {
		return true
	}
	exp, err := strconv.Atoi(exponent)
	if err != nil || exp > maxExponent || exp < -maxExponent {
		return false
	}
	f, err := strconv.ParseFloat(literal, 64)
	return err == nil && !math.IsInf(f, 0)
}

func (r *jsonReader) skipByte(c byte) bool {
	if r.off < len(r.text) && r.text[r.off] == c {
		r.off++
		return true
	}
	return false
}

func (r *jsonReader) skipDigits() (n int) {
	for r.off < len(r.text) && r.text[r.off] >= '0' && r.text[r.off] <= '9' {
		r.off++
		n++
	}
	return n
}

func (r *jsonReader) string() (string, *fault) {
	r.off++ // "
	start := r.off
	for r.off < len(r.text) {
		switch c := r.text[r.off]; {
		case c == '"':
			r.off++
			return r.text[start : r.off-1], nil
		case c == '\\':
			return r.escapedString(start)
		case c < ' ':
			return "", r.fault(ruleControl)
		}
		r.off++
	}
	return "", r.fault(ruleEnd)
}

// escapedString goes on where string met its first backslash. Runs without one
// are copied whole.
func (r *jsonReader) escapedString(start int) (string, *fault) {
	b := make([]byte, 0, 2*(r.off-start)+64)
	for r.off < len(r.text) {
		switch c := r.text[r.off]; {
		case c == '"':
			b = append(b, r.text[start:r.off]...)
			r.off++
			return string(b), nil
		case c == '\\':
			b = append(b, r.text[start:r.off]...)
			char, f := r.escape()
			if f != nil {
				return "", f
			}
			b = utf8.AppendRune(b, char)
			start = r.off
		case c < ' ':
			return "", r.fault(ruleControl)
		default:
			r.off++
		}
	}
	return "", r.fault(ruleEnd)
}

var escapes = [256]rune{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

func (r *jsonReader) escape() (rune, *fault) {
	if r.off+1 >= len(r.text) {
		return 0, r.fault(ruleEnd)
	}
	c := r.text[r.off+1]
	if c != 'u' {
		char := escapes[c]
		if char == 0 {
			return 0, r.fault(ruleEscape)
		}
		r.off += 2
		return char, nil
	}
	high, ok := r.hex()
	if !ok {
		return 0, r.fault(ruleEscape)
	}
	if !utf16.IsSurrogate(high) {
		return high, nil
	}
	if low, ok := r.hex(); ok {
		if char := utf16.DecodeRune(high, low); char != utf8.RuneError {
			return char, nil
		}
	}
	return 0, r.fault(ruleSurrgt)
}

// hex reads \uXXXX.
func (r *jsonReader) hex() (rune, bool) {
	if r.off+6 > len(r.text) || r.text[r.off] != '\\' || r.text[r.off+1] != 'u' {
		return 0, false
	}
	var char rune
	for _, c := range []byte(r.text[r.off+2 : r.off+6]) {
		switch {
		case c >= '0' && c <= '9':
			char = char<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			char = char<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			char = char<<4 | rune(c-'A'+10)
		default:
			return 0, false
		}
	}
	r.off += 6
	return char, true
}
