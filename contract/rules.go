package contract

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// The phrases of rules that say the same wherever they are broken.
const (
	ruleRequired  = "required key is missing"
	ruleUnknown   = "unknown key"
	ruleForbidden = "matches a forbidden form"
	rulePattern   = "does not have the required form"
	ruleNotHere   = "is not allowed here"
	ruleTime      = "is not an RFC 3339 time"
	ruleSchema    = "does not match its schema"
	ruleType      = "has the wrong type"
	ruleBase64    = "is not base64"
)

// maxNamed is how many values of an enumeration an error names.
const maxNamed = 16

// phrase words a broken keyword. It reads the keyword's own value, which is
// part of the schema, and never what was found.
func phrase(k jsonschema.ErrorKind) (rule string, size bool) {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + list(k.Want), false
	case *kind.Enum:
		if len(k.Want) > maxNamed {
			return fmt.Sprintf("must be one of the %d values that the schema lists", len(k.Want)), false
		}
		return "must be one of " + literals(k.Want), false
	case *kind.Const:
		return "must be " + literals([]any{k.Want}), false
	case *kind.Not:
		return ruleForbidden, false
	case *kind.Pattern:
		return rulePattern, false
	case *kind.FalseSchema:
		return ruleNotHere, false
	case *kind.Format:
		return ruleTime, false
	}
	if rule, ok := bound(k); ok {
		return rule, false
	}
	return extent(k)
}

// bound words the limits of a number.
func bound(k jsonschema.ErrorKind) (string, bool) {
	switch k := k.(type) {
	case *kind.Minimum:
		return "is below " + decimal(k.Want), true
	case *kind.Maximum:
		return "is above " + decimal(k.Want), true
	case *kind.ExclusiveMinimum:
		return "must be above " + decimal(k.Want), true
	case *kind.ExclusiveMaximum:
		return "must be below " + decimal(k.Want), true
	}
	return "", false
}

// extent words the limits of a string, an array or an object. Too much of
// something is a size; an object that must have one key is a form.
func extent(k jsonschema.ErrorKind) (rule string, size bool) {
	switch k := k.(type) {
	case *kind.MinLength:
		return atLeast(k.Want, "characters"), false
	case *kind.MinItems:
		return atLeast(k.Want, "items"), false
	case *kind.MinProperties:
		return atLeast(k.Want, "keys"), false
	case *kind.MaxLength:
		return fmt.Sprintf("has more than %d characters", k.Want), true
	case *kind.MaxItems:
		return fmt.Sprintf("has more than %d items", k.Want), true
	case *kind.MaxProperties:
		if k.Want == 1 {
			return "has more than one key", false
		}
		return fmt.Sprintf("has more than %d keys", k.Want), k.Want > 2
	}
	return ruleSchema, false
}

func atLeast(n int, what string) string {
	if n == 1 {
		return "must not be empty"
	}
	return fmt.Sprintf("must have at least %d %s", n, what)
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return r.FloatString(3)
}

func list(types []string) string {
	types = slices.Clone(types)
	for i, t := range types {
		article := "a "
		if strings.IndexByte("aio", t[0]) >= 0 {
			article = "an "
		}
		if t == "null" {
			article = ""
		}
		types[i] = article + t
	}
	return strings.Join(types, " or ")
}

func literals(values []any) string {
	texts := make([]string, 0, len(values))
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return "the allowed values"
		}
		texts = append(texts, string(b))
	}
	return strings.Join(texts, ", ")
}
