package contract

import "strings"

// Format is how a document is written down.
type Format string

// The formats. YAML is for policies only.
const (
	JSON Format = "json"
	YAML Format = "yaml"
)

// Position is a place in a file, counted from 1, columns in characters.
type Position struct {
	Line   int
	Column int
}

// Positions tells where in a file a violation is.
type Positions struct {
	marks map[string]Position // by JSON pointer
	stop  *Position           // where reading stopped
}

// Locate reads data once more for the positions of its keys and items. It
// serves messages to people; nothing is decoded from it.
func Locate(data []byte, format Format) *Positions {
	p := &Positions{marks: map[string]Position{"": {Line: 1, Column: 1}}}
	text, off, f := textOf(data, MaxResultBytes)
	if f != nil {
		r := jsonReader{text: text, off: off, pos: Position{Line: 1, Column: 1}}
		at := r.here()
		p.stop = &at
		return p
	}
	if format == YAML {
		if _, at, f := readYAML(text, p.marks); f != nil {
			p.stop = &at
		}
		return p
	}
	if _, r, f := readJSON(text, p.marks); f != nil {
		at := r.here()
		p.stop = &at
	}
	return p
}

// Of returns where v is: its key, or the nearest thing around it when there is
// no such key.
func (p *Positions) Of(v Violation) Position {
	if p.stop != nil {
		return *p.stop
	}
	for pointer := v.Pointer; ; {
		if at, ok := p.marks[pointer]; ok {
			return at
		}
		i := strings.LastIndexByte(pointer, '/')
		if i < 0 {
			return p.marks[""]
		}
		pointer = pointer[:i]
	}
}
