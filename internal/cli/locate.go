package cli

import (
	"errors"
	"fmt"

	"realm.dev/contract"
)

// locate adds to err, if it is one about what stands in d, where that is.
func locate(d document, err error) error {
	e, ok := errors.AsType[*contract.Error](err)
	if !ok || len(e.Violations) == 0 {
		return err
	}
	positions := contract.Locate(d.data, d.format)
	f := &fileError{err: e}
	for _, v := range e.Violations {
		at := positions.Of(v)
		f.places = append(f.places, fmt.Sprintf("%s:%d:%d", d.name, at.Line, at.Column))
	}
	return f
}
