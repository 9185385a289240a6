package policy

import (
	"errors"
	"strings"
)

// expandBraces returns the alternatives of a pattern: a{b,c} is ab and ac.
// Braces nest; escapes and character classes are left alone.
func expandBraces(pattern string) ([]string, error) {
	p := braceParser{text: pattern}
	out, err := p.sequence(0)
	if err != nil {
		return nil, err
	}
	if p.at < len(p.text) {
		return nil, errors.New("has a closing brace without an opening one")
	}
	return out, nil
}

type braceParser struct {
	text string
	at   int
}

// maxBraceDepth bounds the recursion.
const maxBraceDepth = 8

// sequence reads up to the end, or inside braces up to a comma or the closing one.
func (p *braceParser) sequence(depth int) ([]string, error) {
	out := []string{""}
	for p.at < len(p.text) {
		var parts []string
		switch c := p.text[p.at]; {
		case c == '}', c == ',' && depth > 0:
			return out, nil
		case c == '{':
			alternatives, err := p.group(depth + 1)
			if err != nil {
				return nil, err
			}
			parts = alternatives
		default:
			parts = []string{p.atom()}
		}
		if len(out)*len(parts) > maxGlobAlternatives {
			return nil, errors.New("stands for more than 64 alternatives")
		}
		out = product(out, parts)
	}
	return out, nil
}

// group reads {a,b}.
func (p *braceParser) group(depth int) ([]string, error) {
	if depth > maxBraceDepth {
		return nil, errors.New("nests braces too deep")
	}
	var out []string
	for {
		p.at++ // the brace or the comma
		parts, err := p.sequence(depth)
		if err != nil {
			return nil, err
		}
		if p.at == len(p.text) {
			return nil, errors.New("has an opening brace without a closing one")
		}
		if out = append(out, parts...); len(out) > maxGlobAlternatives {
			return nil, errors.New("stands for more than 64 alternatives")
		}
		if p.text[p.at] == '}' {
			p.at++
			return out, nil
		}
	}
}

// atom reads plain text, an escape, or a whole character class.
func (p *braceParser) atom() string {
	from := p.at
	switch p.text[p.at] {
	case '\\':
		p.at = min(p.at+2, len(p.text))
	case '[':
		for p.at < len(p.text) && p.text[p.at] != ']' {
			if p.text[p.at] == '\\' {
				p.at++
			}
			p.at++
		}
		p.at = min(p.at+1, len(p.text))
	default:
		p.at++
		if n := strings.IndexAny(p.text[p.at:], `\[{},`); n >= 0 {
			p.at += n
		} else {
			p.at = len(p.text)
		}
	}
	return p.text[from:p.at]
}

func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}
