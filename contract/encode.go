package contract

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"unicode/utf8"
)

// Encode is the one way out: v as JSON in one line without a newline, the same
// bytes for the same value, and only when Decode would take it back.
func Encode[T Document](v T) ([]byte, error) {
	if f := invalidText(reflect.ValueOf(&v).Elem()); f != nil {
		return nil, faults{*f}.err()
	}
	data, err := marshal(v)
	if err != nil {
		return nil, Errorf(Internal, "a value cannot be written as JSON").WithCause(err)
	}
	kind := kindOf[T]()
	text, _, f := textOf(data, kind.limit)
	if f != nil {
		return nil, faults{*f}.err()
	}
	tree, _, f := readJSON(text, nil)
	if f != nil {
		return nil, faults{*f}.err()
	}
	fs := match(kind.schema(), tree)
	if c, ok := any(&v).(checker); ok && fs == nil {
		fs = c.faults()
	}
	return data, fs.err()
}

// marshal leaves <, > and & as they are.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// invalidText finds a string that is not UTF-8, which the JSON encoder would
// replace without a word.
func invalidText(v reflect.Value) *fault {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return &fault{rule: ruleUTF8}
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return invalidText(v.Elem())
		}
	case reflect.Struct:
		for _, field := range fieldsOf(v.Type()) {
			if f := invalidText(v.Field(field.index)); f != nil {
				below := f.at(field.key)
				return &below
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if f := invalidText(v.Index(i)); f != nil {
				below := f.at(strconv.Itoa(i))
				return &below
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if !utf8.ValidString(key.String()) {
				return &fault{rule: ruleUTF8}
			}
			if f := invalidText(v.MapIndex(key)); f != nil {
				below := f.at(key.String())
				return &below
			}
		}
	}
	return nil
}

// marshalFilled writes null slices as empty arrays: a reader sees [] and never
// has to tell two kinds of nothing apart. v points to a struct.
func marshalFilled(v any) ([]byte, error) {
	s := reflect.ValueOf(v).Elem()
	for _, field := range fieldsOf(s.Type()) {
		if f := s.Field(field.index); f.Kind() == reflect.Slice && f.IsNil() && !field.omitEmpty {
			f.Set(reflect.MakeSlice(f.Type(), 0, 0))
		}
	}
	return marshal(s.Interface())
}

// MarshalJSON writes empty lists as [].
func (d SessionDetail) MarshalJSON() ([]byte, error) {
	type plain SessionDetail
	p := plain(d)
	return marshalFilled(&p)
}

// MarshalJSON writes empty lists as [].
func (e EngineInfo) MarshalJSON() ([]byte, error) {
	type plain EngineInfo
	p := plain(e)
	return marshalFilled(&p)
}

// MarshalJSON writes empty lists as [].
func (r ListResult) MarshalJSON() ([]byte, error) {
	type plain ListResult
	p := plain(r)
	return marshalFilled(&p)
}

// MarshalJSON writes empty lists as [].
func (p Policy) MarshalJSON() ([]byte, error) {
	type plain Policy
	q := plain(p)
	return marshalFilled(&q)
}

// MarshalJSON writes empty lists as [].
func (g Gate) MarshalJSON() ([]byte, error) {
	type plain Gate
	p := plain(g)
	return marshalFilled(&p)
}
