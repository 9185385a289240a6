package contract

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// bind puts a tree, which its schema has accepted, into a Go value. It knows the
// few kinds that documents are made of and is exact: a key without a field is a
// fault, 10.0 and 1e3 are integers, nothing is rounded or cut.
func bind(dst reflect.Value, tree any) *fault {
	switch dst.Interface().(type) {
	case time.Time:
		return bindTime(dst, tree)
	case map[string]any:
		return assign[map[string]any](dst, tree)
	}
	switch dst.Kind() {
	case reflect.Pointer:
		return bindPointer(dst, tree)
	case reflect.Interface:
		if tree != nil {
			dst.Set(reflect.ValueOf(tree))
		}
		return nil
	case reflect.Struct:
		return bindStruct(dst, tree)
	case reflect.Slice:
		return bindSlice(dst, tree)
	case reflect.Map:
		return bindMap(dst, tree)
	case reflect.String:
		return assign[string](dst, tree)
	case reflect.Bool:
		return assign[bool](dst, tree)
	case reflect.Int, reflect.Int64, reflect.Float64:
		return bindNumber(dst, tree)
	}
	return &fault{rule: ruleType}
}

func assign[V any](dst reflect.Value, tree any) *fault {
	v, ok := tree.(V)
	if !ok {
		return &fault{rule: ruleType}
	}
	dst.Set(reflect.ValueOf(v).Convert(dst.Type()))
	return nil
}

// bindPointer reads null as a nil pointer, except behind a pointer to any,
// which tells a null from a key that is missing.
func bindPointer(dst reflect.Value, tree any) *fault {
	if tree == nil && dst.Type().Elem().Kind() != reflect.Interface {
		return nil
	}
	dst.Set(reflect.New(dst.Type().Elem()))
	return bind(dst.Elem(), tree)
}

func bindStruct(dst reflect.Value, tree any) *fault {
	obj, ok := tree.(map[string]any)
	if !ok {
		return &fault{rule: ruleType}
	}
	found := 0
	for _, field := range fieldsOf(dst.Type()) {
		v, given := obj[field.key]
		if !given {
			continue
		}
		found++
		if f := bind(dst.Field(field.index), v); f != nil {
			below := f.at(field.key)
			return &below
		}
		// What is not written when it is empty is one value, given or not.
		if at := dst.Field(field.index); field.omitEmpty && (at.Kind() == reflect.Map || at.Kind() == reflect.Slice) && at.Len() == 0 {
			at.SetZero()
		}
	}
	if found != len(obj) {
		return &fault{rule: ruleUnknown}
	}
	return nil
}

type field struct {
	key       string
	index     int
	omitEmpty bool
}

var fieldCache sync.Map // reflect.Type → []field

// fieldsOf lists the fields of a struct that are keys of its document.
func fieldsOf(t reflect.Type) []field {
	if cached, ok := fieldCache.Load(t); ok {
		return cached.([]field)
	}
	var fields []field
	for i := range t.NumField() {
		key, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if key != "" && key != "-" {
			fields = append(fields, field{key: key, index: i, omitEmpty: options == "omitempty"})
		}
	}
	fieldCache.Store(t, fields)
	return fields
}

func bindSlice(dst reflect.Value, tree any) *fault {
	arr, ok := tree.([]any)
	if !ok {
		return &fault{rule: ruleType}
	}
	s := reflect.MakeSlice(dst.Type(), len(arr), len(arr))
	for i, v := range arr {
		if f := bind(s.Index(i), v); f != nil {
			below := f.at(strconv.Itoa(i))
			return &below
		}
	}
	dst.Set(s)
	return nil
}

func bindMap(dst reflect.Value, tree any) *fault {
	obj, ok := tree.(map[string]any)
	if !ok {
		return &fault{rule: ruleType}
	}
	m := reflect.MakeMapWithSize(dst.Type(), len(obj))
	for key, v := range obj {
		item := reflect.New(dst.Type().Elem()).Elem()
		if f := bind(item, v); f != nil {
			below := f.at(key)
			return &below
		}
		m.SetMapIndex(reflect.ValueOf(key), item)
	}
	dst.Set(m)
	return nil
}

// bindNumber may make a big.Rat, because the readers bound literal and exponent.
func bindNumber(dst reflect.Value, tree any) *fault {
	n, ok := tree.(json.Number)
	if !ok {
		return &fault{rule: ruleType}
	}
	if dst.Kind() == reflect.Float64 {
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil {
			return &fault{rule: ruleNumber}
		}
		dst.SetFloat(f)
		return nil
	}
	i, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		r, ok := new(big.Rat).SetString(string(n))
		if !ok || !r.IsInt() || !r.Num().IsInt64() {
			return &fault{rule: ruleNumber}
		}
		i = r.Num().Int64()
	}
	if dst.OverflowInt(i) {
		return &fault{rule: ruleNumber}
	}
	dst.SetInt(i)
	return nil
}

func bindTime(dst reflect.Value, tree any) *fault {
	s, _ := tree.(string)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return &fault{rule: ruleTime}
	}
	dst.Set(reflect.ValueOf(t.UTC()))
	return nil
}
