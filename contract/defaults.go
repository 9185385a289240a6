package contract

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// fillDefaults writes into tree what the schema gives as default for keys that
// are missing. The schema is the only place where a default is written.
func fillDefaults(s *jsonschema.Schema, tree any) {
	obj, ok := tree.(map[string]any)
	if !ok {
		return
	}
	for key, property := range s.Properties {
		if _, given := obj[key]; !given && property.Default != nil {
			obj[key] = cloneTree(*property.Default)
		}
		if property.Ref != nil {
			property = property.Ref
		}
		fillDefaults(property, obj[key])
	}
}

func cloneTree(v any) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key, item := range v {
			v[key] = cloneTree(item)
		}
		return v
	case []any:
		clone := make([]any, len(v))
		for i, item := range v {
			clone[i] = cloneTree(item)
		}
		return clone
	}
	return v
}

// keysOf lists the pointers of the keys that tree gives, sorted, and those of
// the objects in it, but not of the items of arrays.
func keysOf(tree any) []string {
	var pointers []string
	var walk func(prefix string, v any)
	walk = func(prefix string, v any) {
		obj, _ := v.(map[string]any)
		for key, item := range obj {
			pointers = append(pointers, prefix+"/"+key)
			walk(prefix+"/"+key, item)
		}
	}
	walk("", tree)
	slices.Sort(pointers)
	return pointers
}
