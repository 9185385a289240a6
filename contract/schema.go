package contract

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"realm.dev/schemas"
)

// embedded loads schemas from this binary and from nowhere else.
type embedded struct{}

const embeddedURL = "realm:///"

// Load implements jsonschema.URLLoader.
func (embedded) Load(url string) (any, error) {
	path, ok := strings.CutPrefix(url, embeddedURL)
	if !ok {
		return nil, fmt.Errorf("schema %q is not part of this program", url)
	}
	data, err := schemas.Files.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(data))
}

// compile panics when an embedded schema is broken: then nothing can be decoded.
func compile(name string) *jsonschema.Schema {
	path, err := schemas.Path(name)
	if err != nil {
		panic("contract: " + err.Error())
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(embedded{})
	return c.MustCompile(embeddedURL + path)
}

// match reports how tree breaks the schema.
func match(s *jsonschema.Schema, tree any) faults {
	err := s.Validate(tree)
	if err == nil {
		return nil
	}
	invalid, ok := err.(*jsonschema.ValidationError) //nolint:errorlint // the library returns it bare
	if !ok {
		return faults{{rule: ruleSchema}}
	}
	return flatten(invalid, nil)
}

// flatten collects the leaves. Our schemas branch by if and then only, so that
// every leaf is a fact about the document and not about an alternative. They do
// not use propertyNames, whose location in the library is overwritten by what it
// validates next.
func flatten(e *jsonschema.ValidationError, fs faults) faults {
	here := fault{path: e.InstanceLocation}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			fs = flatten(cause, fs)
		}
		return fs
	case *kind.Required:
		for _, key := range k.Missing {
			fs = append(fs, fault{rule: ruleRequired}.at(here.path...).below(key))
		}
		return fs
	case *kind.AdditionalProperties:
		for _, key := range k.Properties {
			fs = append(fs, fault{rule: ruleUnknown}.at(here.path...).below(key))
		}
		return fs
	}
	here.rule, here.size = phrase(e.ErrorKind)
	return append(fs, here)
}

func (f fault) below(key string) fault {
	f.path = append(f.path[:len(f.path):len(f.path)], key)
	return f
}
