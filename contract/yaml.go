package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

const (
	ruleYAML      = "is not YAML here"
	ruleAnchor    = "anchors and aliases are not allowed"
	ruleTag       = "tags are not allowed"
	ruleKey       = "a key is not a string"
	ruleDocuments = "there is more than one document"
	ruleInfinite  = "number is not finite"
)

// yamlReader turns YAML nodes into the same tree that jsonReader makes. The
// library finds the nodes; what a plain scalar means is decided here, by the
// core schema of YAML 1.2: yes, on and NO are strings, 010 is ten.
type yamlReader struct {
	cursor
	at Position // of the node that is being read
}

// readYAML reads text, which textOf has accepted. On a fault it tells where.
func readYAML(text string, marks map[string]Position) (any, Position, *fault) {
	r := &yamlReader{cursor: cursor{marks: marks}, at: Position{Line: 1, Column: 1}}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, r.at, nil // an empty document is null
	} else if err != nil {
		return nil, yamlLine(err), r.fault(ruleYAML)
	}
	v, f := r.value(&doc, 0)
	if f != nil {
		return nil, r.at, f
	}
	var next yaml.Node
	if err := decoder.Decode(&next); err == nil {
		return nil, Position{Line: next.Line, Column: next.Column}, r.fault(ruleDocuments)
	} else if !errors.Is(err, io.EOF) {
		return nil, yamlLine(err), r.fault(ruleYAML)
	}
	return v, r.at, nil
}

// yamlLine takes the line from the library's error; the rest of its text may
// quote the input. Its parser counts lines from zero and its scanner from one.
func yamlLine(err error) Position {
	first := Position{Line: 1, Column: 1}
	at := first
	if _, scan := fmt.Sscanf(err.Error(), "yaml: line %d:", &at.Line); scan != nil {
		return first
	}
	if strings.Contains(err.Error(), "did not find expected") {
		at.Line++
	}
	return at
}

func (r *yamlReader) value(n *yaml.Node, depth int) (any, *fault) {
	r.at = Position{Line: n.Line, Column: n.Column}
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		return nil, r.fault(ruleAnchor)
	case n.Style&yaml.TaggedStyle != 0:
		return nil, r.fault(ruleTag)
	case n.Kind == yaml.DocumentNode && len(n.Content) == 1:
		return r.value(n.Content[0], depth)
	}
	if n.Kind != yaml.ScalarNode {
		depth++
	}
	if f := r.count(depth); f != nil {
		return nil, f
	}
	switch n.Kind {
	case yaml.MappingNode:
		return r.mapping(n, depth)
	case yaml.SequenceNode:
		return r.sequence(n, depth)
	case yaml.ScalarNode:
		return r.scalar(n)
	}
	return nil, r.fault(ruleYAML)
}

func (r *yamlReader) mapping(n *yaml.Node, depth int) (any, *fault) {
	obj := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, f := r.key(n.Content[i])
		if f != nil {
			return nil, f
		}
		r.enterKey(key)
		if _, double := obj[key]; double {
			return nil, r.fault(ruleDouble)
		}
		r.mark(r.at)
		v, f := r.value(n.Content[i+1], depth)
		if f != nil {
			return nil, f
		}
		obj[key] = v
		r.leave()
	}
	return obj, nil
}

func (r *yamlReader) key(n *yaml.Node) (string, *fault) {
	r.at = Position{Line: n.Line, Column: n.Column}
	if n.Kind != yaml.ScalarNode {
		if n.Kind == yaml.AliasNode {
			return "", r.fault(ruleAnchor)
		}
		return "", r.fault(ruleKey)
	}
	v, f := r.value(n, 0)
	if f != nil {
		return "", f
	}
	key, ok := v.(string)
	if !ok {
		return "", r.fault(ruleKey)
	}
	return key, nil
}

func (r *yamlReader) sequence(n *yaml.Node, depth int) (any, *fault) {
	arr := make([]any, 0, len(n.Content))
	for i, item := range n.Content {
		r.enterItem(i)
		r.mark(Position{Line: item.Line, Column: item.Column})
		v, f := r.value(item, depth)
		if f != nil {
			return nil, f
		}
		arr = append(arr, v)
		r.leave()
	}
	return arr, nil
}

// core holds the forms of YAML 1.2 section 10.3.2.
var core = sync.OnceValue(func() (c struct{ octal, hexadecimal, number, infinite *regexp.Regexp }) {
	c.octal = regexp.MustCompile(`^0o[0-7]+$`)
	c.hexadecimal = regexp.MustCompile(`^0x[0-9a-fA-F]+$`)
	c.number = regexp.MustCompile(`^([-+]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([-+]?[0-9]+))?$`)
	c.infinite = regexp.MustCompile(`^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	return c
})

func (r *yamlReader) scalar(n *yaml.Node) (any, *fault) {
	const quoted = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted != 0 {
		return n.Value, nil
	}
	switch n.Value {
	case "", "~", "null", "Null", "NULL":
		return nil, nil
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	// Only these can start a number, which spares strings the expressions.
	if c := n.Value[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return n.Value, nil
	}
	return r.plain(n.Value)
}

func (r *yamlReader) plain(value string) (any, *fault) {
	form := core()
	switch {
	case form.infinite.MatchString(value):
		return nil, r.fault(ruleInfinite)
	case form.octal.MatchString(value), form.hexadecimal.MatchString(value):
		i, err := strconv.ParseInt(value, 0, 64)
		if err != nil {
			return nil, r.fault(ruleNumber)
		}
		return json.Number(strconv.FormatInt(i, 10)), nil
	}
	m := form.number.FindStringSubmatch(value)
	if m == nil || m[2] == "" && m[3] == "" {
		return value, nil
	}
	literal := jsonNumber(m[1], m[2], m[3], m[4])
	if !inRange(literal, m[4]) {
		return nil, r.fault(ruleNumber)
	}
	return json.Number(literal), nil
}

// jsonNumber writes a YAML number in JSON's form: no plus, no leading zeros,
// digits on both sides of the point.
func jsonNumber(sign, whole, fraction, exponent string) string {
	var b strings.Builder
	if sign == "-" {
		b.WriteByte('-')
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	b.WriteString(whole)
	if fraction != "" {
		b.WriteString("." + fraction)
	}
	if exponent != "" {
		b.WriteString("e" + exponent)
	}
	return b.String()
}
