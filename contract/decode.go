package contract

import "reflect"

// Decode is the one way into realm for a JSON document. In order: size, UTF-8
// without byte order mark, NUL or half surrogates, one value and nothing after
// it, no key twice, depth, schema, and the rules that a schema cannot say. The
// bytes are read once. The error is a *Error that holds no value of the input.
func Decode[T Document](data []byte) (T, error) {
	var zero T
	kind := kindOf[T]()
	text, _, f := textOf(data, kind.limit)
	if f != nil {
		return zero, faults{*f}.err()
	}
	tree, _, f := readJSON(text, nil)
	if f != nil {
		return zero, faults{*f}.err()
	}
	return build[T](kind, tree)
}

// DecodeYAML reads a policy that a person wrote: YAML 1.2 without anchors,
// tags, repeated keys and keys that are not strings, then as Decode.
func DecodeYAML(data []byte) (Policy, error) {
	text, _, f := textOf(data, policyDocument.limit)
	if f != nil {
		return Policy{}, faults{*f}.err()
	}
	tree, _, f := readYAML(text, nil)
	if f != nil {
		return Policy{}, faults{*f}.err()
	}
	return build[Policy](policyDocument, tree)
}

// checker is a document with rules that its schema cannot say.
type checker interface{ faults() faults }

func build[T Document](kind *document, tree any) (T, error) {
	var v, zero T
	schema := kind.schema()
	if fs := match(schema, tree); fs != nil {
		return zero, fs.err()
	}
	if p, ok := any(&v).(*Policy); ok {
		p.Explicit = keysOf(tree)
		fillDefaults(schema, tree)
	}
	if f := bind(reflect.ValueOf(&v).Elem(), tree); f != nil {
		return zero, faults{*f}.err()
	}
	if c, ok := any(&v).(checker); ok {
		if fs := c.faults(); fs != nil {
			return zero, fs.err()
		}
	}
	return v, nil
}
