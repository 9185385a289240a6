package contract

import (
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math/big"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The Go types and the schemas are both written by hand. This test walks them
// side by side, so that neither changes alone.
func TestTypesAndSchemasAgree(t *testing.T) {
	d := drift{T: t, constants: constantsOf(t), done: map[string]bool{}, enums: map[string]bool{}}
	for doc, typ := range map[*document]reflect.Type{
		policyDocument: reflect.TypeFor[Policy](),
		callDocument:   reflect.TypeFor[ToolCall](),
		resultDocument: reflect.TypeFor[ToolResult](),
		recordDocument: reflect.TypeFor[SessionRecord](),
		detailDocument: reflect.TypeFor[SessionDetail](),
		frameDocument:  reflect.TypeFor[Frame](),
		entryDocument:  reflect.TypeFor[AuditEntry](),
		eventDocument:  reflect.TypeFor[ToolCallEvent](),
	} {
		d.value(doc.name, typ, doc.schema())
	}
	for name := range d.constants {
		if !d.enums[name] && name != "Class" && name != "Format" {
			t.Errorf("no schema has the values of %s", name)
		}
	}
}

type drift struct {
	*testing.T
	constants map[string][]string // type name → values
	done      map[string]bool
	enums     map[string]bool
}

// narrowed are the places that take fewer values than their type has.
var narrowed = map[string][]string{
	"policy/egressDefault":              {"deny", "ask"},
	"control-message/decision/decision": {"allow", "deny"},
}

// resolve follows references and "null or" branches.
func resolve(s *jsonschema.Schema) (target *jsonschema.Schema, nullable bool) {
	for {
		switch {
		case s.Types == nil && s.Ref != nil:
			s = s.Ref
		case s.Types == nil && s.If != nil && s.Else != nil && slices.Equal(types(s.If), []string{"null"}):
			s, nullable = s.Else, true
		default:
			return s, nullable || slices.Contains(types(s), "null")
		}
	}
}

func types(s *jsonschema.Schema) []string {
	if s.Types == nil {
		return nil
	}
	return s.Types.ToStrings()
}

func (d *drift) value(at string, typ reflect.Type, schema *jsonschema.Schema) {
	s, nullable := resolve(schema)
	if typ == reflect.TypeFor[*any]() {
		if len(types(s)) != 0 {
			d.Errorf("%s: any value is not allowed", at)
		}
		return
	}
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	} else if nullable {
		d.Errorf("%s: null is allowed, but %s cannot hold it", at, typ)
	}
	want := jsonType(typ)
	if got := slices.DeleteFunc(types(s), func(name string) bool { return name == "null" }); !slices.Equal(got, []string{want}) {
		d.Errorf("%s: the schema has types %q, %s is %q", at, got, typ, want)
	}
	switch {
	case typ == reflect.TypeFor[time.Time]():
		if s.Format == nil || s.Format.Name != "date-time" {
			d.Errorf("%s: is no date-time", at)
		}
	case typ.Kind() == reflect.Struct:
		d.object(at, typ, s)
	case typ.Kind() == reflect.Slice:
		d.value(at+"[]", typ.Elem(), s.Items2020)
	case typ == reflect.TypeFor[map[string]string]():
		d.values(at, typ.Elem(), s)
	case typ.Kind() == reflect.String:
		d.enum(at, typ, s)
	case want == "integer":
		d.integer(at, s)
	}
}

// values are those of a map, which the schema knows by patterns of their keys.
func (d *drift) values(at string, typ reflect.Type, s *jsonschema.Schema) {
	if s.AdditionalProperties != false || len(s.PatternProperties) == 0 {
		d.Errorf("%s: is open", at)
	}
	for _, values := range s.PatternProperties {
		if values.Bool == nil {
			d.value(at+"{}", typ, values)
		}
	}
}

func jsonType(typ reflect.Type) string {
	if typ == reflect.TypeFor[time.Time]() {
		return "string"
	}
	switch typ.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64:
		return "integer"
	case reflect.Float64:
		return "number"
	}
	return typ.Kind().String()
}

func (d *drift) object(at string, typ reflect.Type, s *jsonschema.Schema) {
	key := typ.String() + " " + s.Location
	if d.done[key] {
		return
	}
	d.done[key] = true
	if s.AdditionalProperties != false {
		d.Errorf("%s: is open", at)
	}
	var keys []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" || !f.IsExported() || option != "" && option != "omitempty" {
			d.Errorf("%s: field %s has no key of its own", at, f.Name)
			continue
		}
		keys = append(keys, name)
		p, ok := s.Properties[name]
		if !ok {
			continue
		}
		d.presence(at+"/"+name, f, option == "omitempty", slices.Contains(s.Required, name), p)
		d.value(at+"/"+name, f.Type, p)
	}
	slices.Sort(keys)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(s.Properties)), keys); diff != "" {
		d.Errorf("%s: keys of the schema and of %s (-schema +type):\n%s", at, typ, diff)
	}
}

// presence: what is always written is required when read, unless the schema
// gives a default; what may be left out is never required.
func (d *drift) presence(at string, f reflect.StructField, omitEmpty, required bool, p *jsonschema.Schema) {
	hasDefault := p.Default != nil
	switch {
	case omitEmpty && required:
		d.Errorf("%s: is required, but may be left out when written", at)
	case !omitEmpty && !required && !hasDefault && !strings.HasSuffix(at, "/containerId"):
		d.Errorf("%s: is not required and has no default", at)
	case !omitEmpty && required && hasDefault:
		d.Errorf("%s: is required and has a default", at)
	}
	_, nullable := resolve(p)
	if pointer := f.Type.Kind() == reflect.Pointer; pointer && f.Type != reflect.TypeFor[*any]() && nullable == omitEmpty {
		d.Errorf("%s: nil is written as null, or left out: omitempty is %v, null allowed is %v", at, omitEmpty, nullable)
	}
}

func (d *drift) enum(at string, typ reflect.Type, s *jsonschema.Schema) {
	if typ.PkgPath() == "" {
		return
	}
	want, ok := narrowed[at]
	if !ok {
		want = d.constants[typ.Name()]
	}
	if s.Enum == nil {
		d.Errorf("%s: has no enum, %s has %q", at, typ, want)
		return
	}
	d.enums[typ.Name()] = true
	var got []string
	for _, v := range s.Enum.Values {
		got = append(got, fmt.Sprint(v))
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if diff := cmp.Diff(want, got); diff != "" {
		d.Errorf("%s: values of %s (-type +schema):\n%s", at, typ, diff)
	}
}

func (d *drift) integer(at string, s *jsonschema.Schema) {
	if s.Const != nil {
		return
	}
	if s.Minimum == nil || s.Maximum == nil {
		d.Errorf("%s: has no bounds", at)
		return
	}
	if exact := new(big.Rat).SetInt64(1 << 53); s.Maximum.Cmp(exact) >= 0 {
		d.Errorf("%s: a float64 does not hold the maximum", at)
	}
}

// constantsOf reads the string constants of this package by their type.
func constantsOf(t *testing.T) map[string][]string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			name, isIdent := spec.Type.(*ast.Ident)
			value, isLiteral := spec.Values[0].(*ast.BasicLit)
			if isIdent && isLiteral && value.Kind == token.STRING {
				text, err := strconv.Unquote(value.Value)
				if err != nil {
					t.Fatal(err)
				}
				found[name.Name] = append(found[name.Name], text)
			}
			return true
		})
	}
	return found
}

func TestBoundsAgree(t *testing.T) {
	encoded := base64.StdEncoding.EncodedLen
	call, result, record := callDocument.schema(), resultDocument.schema(), recordDocument.schema()
	exec, _ := resolve(call.Properties["exec"])
	write, _ := resolve(call.Properties["write"])
	read, _ := resolve(call.Properties["read"])
	listing, _ := resolve(call.Properties["list"])
	readResult, _ := resolve(result.Properties["read"])
	listResult, _ := resolve(result.Properties["list"])
	stdin, _ := resolve(frameDocument.schema().Properties["stdin"])
	argument, _ := resolve(exec.Properties["argv"].Items2020)
	lengths := map[string]struct {
		s    *jsonschema.Schema
		want int
	}{
		"content":       {write.Properties["content"], encoded(MaxContentBytes)},
		"stdin":         {exec.Properties["stdin"], encoded(MaxContentBytes)},
		"stdin frame":   {stdin.Properties["data"], encoded(MaxContentBytes)},
		"script":        {exec.Properties["script"], MaxScriptBytes},
		"argument":      {argument, MaxArgBytes},
		"program":       {exec.Properties["argv"].PrefixItems[0], MaxArgBytes},
		"path":          {read.Properties["path"], MaxPathBytes},
		"socket":        {record.Properties["controlSocketPath"], MaxSocketPath},
		"workspace":     {record.Properties["workspaceRoot"], MaxPathBytes},
		"read content":  {readResult.Properties["content"], encoded(MaxReadBytes)},
		"glob":          {policyDocument.schema().Properties["hide"].Ref.Items2020, MaxPathBytes},
		"rule argument": {policyDocument.schema().Properties["gate"].Ref.Properties["rules"].Items2020.Ref.Properties["argv"].Items2020, MaxArgBytes},
	}
	for name, l := range lengths {
		if s, _ := resolve(l.s); s.MaxLength == nil || *s.MaxLength != l.want {
			t.Errorf("%s: maxLength is not %d", name, l.want)
		}
	}
	numbers := map[string]struct {
		s    *jsonschema.Schema
		want int64
	}{
		"read.maxBytes":   {read.Properties["maxBytes"], MaxReadBytes},
		"list.depth":      {listing.Properties["depth"], MaxListDepth},
		"exec.timeoutMs":  {exec.Properties["timeoutMs"], MaxMilliseconds},
		"toolQueueMs":     {policyDocument.schema().Properties["toolQueueMs"], MaxMilliseconds},
		"startupBudgetMs": {policyDocument.schema().Properties["startupBudgetMs"], MaxMilliseconds},
	}
	for name, n := range numbers {
		if s, _ := resolve(n.s); s.Maximum == nil || s.Maximum.Cmp(new(big.Rat).SetInt64(n.want)) != 0 {
			t.Errorf("%s: maximum is not %d", name, n.want)
		}
	}
	if max := listResult.Properties["entries"].MaxItems; max == nil || *max != MaxListEntries {
		t.Errorf("entries: maxItems is not %d", MaxListEntries)
	}
	errorSchema, _ := resolve(result.Properties["error"])
	if max := errorSchema.Properties["violations"].MaxItems; max == nil || *max != MaxViolations {
		t.Errorf("violations: maxItems is not %d", MaxViolations)
	}
	defaults := map[string]any{
		"maxBytes": *read.Properties["maxBytes"].Default,
		"depth":    *listing.Properties["depth"].Default,
	}
	if diff := cmp.Diff(fmt.Sprint(map[string]any{"maxBytes": MaxReadBytes, "depth": DefaultListDepth}), fmt.Sprint(defaults)); diff != "" {
		t.Error(diff)
	}
}
