package workspace

import (
	"errors"
	"strings"
)

// configVar is one variable of a git configuration file. Section and key are
// lower case; sub is as written. Set tells `key =` from a bare `key`, which
// means true.
type configVar struct {
	section, sub, key, value string
	set                      bool
}

// name is the variable's name without the subsection, which may hold anything.
func (v configVar) name() string { return v.section + "." + v.key }

var errConfig = errors.New("not a git configuration")

// maxConfigBytes bounds a configuration that is worth reading.
const maxConfigBytes = 1 << 20

// parseConfig reads a git configuration file (git-config(1), "Syntax"). It is
// stricter than git: what git would only warn about, or read in its own way, is
// an error, and the caller keeps the whole file back.
func parseConfig(data []byte) ([]configVar, error) {
	if len(data) > maxConfigBytes || strings.ContainsRune(string(data), 0) {
		return nil, errConfig
	}
	p := configParser{s: strings.ReplaceAll(string(data), "\r\n", "\n")}
	for {
		p.space(" \t\n")
		switch c := p.peek(); {
		case c == 0:
			return p.vars, nil
		case c == '#' || c == ';':
			p.comment()
		case c == '[':
			if !p.header() {
				return nil, errConfig
			}
		case !isAlpha(c) || p.section == "" || !p.variable():
			return nil, errConfig
		}
	}
}

// configParser holds the rest of the text and the current section. NUL, which
// the text does not hold, stands for its end.
type configParser struct {
	s            string
	section, sub string
	vars         []configVar
}

func (p *configParser) peek() byte {
	if p.s == "" {
		return 0
	}
	return p.s[0]
}

func (p *configParser) next() byte {
	c := p.peek()
	if c != 0 {
		p.s = p.s[1:]
	}
	return c
}

func (p *configParser) space(set string) { p.s = strings.TrimLeft(p.s, set) }

func (p *configParser) comment() {
	i := strings.IndexByte(p.s, '\n')
	if i < 0 {
		i = len(p.s)
	}
	p.s = p.s[i:]
}

// header reads `[section]`, `[section "sub"]`, or the old `[section.sub]`.
func (p *configParser) header() bool {
	p.next()
	p.section, p.sub = p.word("."), ""
	switch p.next() {
	case ']':
		p.section, p.sub, _ = strings.Cut(p.section, ".")
		return p.section != ""
	case ' ', '\t':
		if strings.Contains(p.section, ".") {
			return false
		}
		p.space(" \t")
		return p.section != "" && p.subsection()
	}
	return false
}

func (p *configParser) subsection() bool {
	if p.next() != '"' {
		return false
	}
	var b strings.Builder
	for {
		c := p.next()
		if c == '\\' {
			c = p.next()
		} else if c == '"' {
			p.sub = b.String()
			return p.next() == ']'
		}
		if c == 0 || c == '\n' {
			return false
		}
		b.WriteByte(c)
	}
}

// word reads letters, digits, dashes and what else is allowed, lower-cased.
func (p *configParser) word(also string) string {
	i := 0
	for i < len(p.s) && (isAlpha(p.s[i]) || p.s[i] >= '0' && p.s[i] <= '9' || p.s[i] == '-' || strings.IndexByte(also, p.s[i]) >= 0) {
		i++
	}
	w := p.s[:i]
	p.s = p.s[i:]
	return strings.ToLower(w)
}

func (p *configParser) variable() bool {
	v := configVar{section: p.section, sub: p.sub, key: p.word("")}
	p.space(" \t")
	ok := true
	switch p.peek() {
	case '=':
		p.next()
		v.set = true
		v.value, ok = p.valueText()
	case 0, '\n', '#', ';':
	default:
		return false
	}
	p.vars = append(p.vars, v)
	return ok
}

// valueText reads the text after `=`: quotes, escapes, continuation lines and a
// comment at the end.
func (p *configParser) valueText() (string, bool) {
	var b strings.Builder
	quoted := false
	keep := 0 // length up to the last character that is not trailing space
	p.space(" \t")
	for {
		c := p.peek()
		if c == 0 || c == '\n' {
			return b.String()[:keep], !quoted
		}
		if !quoted && (c == '#' || c == ';') {
			p.comment()
			continue
		}
		p.next()
		switch {
		case c == '"':
			quoted = !quoted
			keep = b.Len()
			continue
		case c == '\\':
			var ok bool
			if c, ok = p.escape(); !ok {
				return "", false
			} else if c == 0 { // the line goes on
				continue
			}
			b.WriteByte(c)
			keep = b.Len()
			continue
		}
		b.WriteByte(c)
		if quoted || c != ' ' && c != '\t' {
			keep = b.Len()
		}
	}
}

func (p *configParser) escape() (byte, bool) {
	switch c := p.next(); c {
	case '\n':
		return 0, true
	case 't':
		return '\t', true
	case 'b':
		return '\b', true
	case 'n':
		return '\n', true
	case '\\', '"':
		return c, true
	}
	return 0, false
}

func isAlpha(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// formatConfig writes vars so that git reads exactly them.
func formatConfig(vars []configVar) []byte {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	var b strings.Builder
	for i, v := range vars {
		if i == 0 || v.section != vars[i-1].section || v.sub != vars[i-1].sub {
			b.WriteString("[" + v.section)
			if v.sub != "" {
				b.WriteString(` "` + quote.Replace(v.sub) + `"`)
			}
			b.WriteString("]\n")
		}
		b.WriteString("\t" + v.key)
		if v.set {
			b.WriteString(` = "` + quote.Replace(v.value) + `"`)
		}
		b.WriteString("\n")
	}
	return []byte(b.String())
}
