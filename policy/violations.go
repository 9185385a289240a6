package policy

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"realm.dev/contract"
)

// violations collects what is wrong with a policy, all of it.
type violations []contract.Violation

// add reports err, whose text is a fixed phrase, at a place. A nil err is none.
func (v *violations) add(err error, at ...any) {
	if err != nil {
		*v = append(*v, contract.Violation{Pointer: pointer(at...), Rule: err.Error()})
	}
}

// refuse reports a phrase at a place when wrong.
func (v *violations) refuse(wrong bool, phrase string, at ...any) {
	if wrong {
		*v = append(*v, contract.Violation{Pointer: pointer(at...), Rule: phrase})
	}
}

// sorted returns the violations by pointer, as contract.Invalid does.
func (v violations) sorted() []contract.Violation {
	slices.SortStableFunc(v, func(a, b contract.Violation) int {
		return cmp.Or(strings.Compare(a.Pointer, b.Pointer), strings.Compare(a.Rule, b.Rule))
	})
	return v
}

// err returns the violations as one SCHEMA_INVALID, nil when there are none.
func (v violations) err() error {
	if len(v) == 0 {
		return nil
	}
	return contract.Invalid(v...)
}

// pointer joins keys and indexes of the schema; none of them needs escaping.
func pointer(at ...any) string {
	p := ""
	for _, a := range at {
		switch a := a.(type) {
		case string:
			p += "/" + a
		case int:
			p += "/" + strconv.Itoa(a)
		}
	}
	return p
}
