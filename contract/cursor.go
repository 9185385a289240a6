package contract

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// What one document may hold, whatever its kind.
const (
	MaxDepth  = 64      // arrays and objects inside each other
	MaxValues = 1 << 18 // values of any kind, so that small bytes cannot become much memory
)

const (
	ruleSize    = "the document is larger than allowed"
	ruleDepth   = "nests deeper than 64 levels"
	ruleValues  = "the document holds too many values"
	ruleUTF8    = "is not UTF-8"
	ruleBOM     = "starts with a byte order mark"
	ruleNUL     = "holds a NUL byte"
	ruleDouble  = "key is given twice"
	ruleNumber  = "number is out of range"
	maxNumber   = 64 // characters; no number of ours needs more
	maxExponent = 400
)

// cursor is what the JSON and the YAML reader share: where they are, how much
// they have seen, and the positions when somebody wants them.
type cursor struct {
	path   []step
	values int
	marks  map[string]Position // nil: not wanted
}

type step struct {
	key   string
	index int // -1: key
}

func (c *cursor) enterKey(key string) { c.path = append(c.path, step{key: key, index: -1}) }
func (c *cursor) enterItem(i int)     { c.path = append(c.path, step{index: i}) }
func (c *cursor) leave()              { c.path = c.path[:len(c.path)-1] }

func (c *cursor) fault(rule string) *fault {
	f := &fault{rule: rule}
	for _, s := range c.path {
		if s.index >= 0 {
			f.path = append(f.path, strconv.Itoa(s.index))
		} else {
			f.path = append(f.path, s.key)
		}
	}
	return f
}

func (c *cursor) sizeFault(rule string) *fault {
	f := c.fault(rule)
	f.size = true
	return f
}

// count is called once for each value, before it is made.
func (c *cursor) count(depth int) *fault {
	c.values++
	switch {
	case depth > MaxDepth:
		return c.sizeFault(ruleDepth)
	case c.values > MaxValues:
		return c.sizeFault(ruleValues)
	}
	return nil
}

// mark remembers the position of the value that the cursor is at.
func (c *cursor) mark(at Position) {
	if c.marks == nil {
		return
	}
	var b strings.Builder
	for _, s := range c.path {
		b.WriteByte('/')
		if s.index >= 0 {
			b.WriteString(strconv.Itoa(s.index))
		} else {
			b.WriteString(escapePointer(s.key))
		}
	}
	c.marks[b.String()] = at
}

func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// textOf refuses what no text document may hold, its size before anything is
// copied; off is where.
func textOf(data []byte, limit int) (text string, off int, f *fault) {
	if len(data) > limit {
		return "", 0, &fault{rule: ruleSize, size: true}
	}
	text = string(data)
	if strings.HasPrefix(text, "\ufeff") {
		return text, 0, &fault{rule: ruleBOM}
	}
	if !utf8.ValidString(text) {
		return text, firstInvalid(text), &fault{rule: ruleUTF8}
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		return text, i, &fault{rule: ruleNUL}
	}
	return text, 0, nil
}

func firstInvalid(s string) int {
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return i
			}
		}
	}
	return len(s)
}
