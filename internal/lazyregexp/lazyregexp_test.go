package lazyregexp_test

import (
	"testing"

	"realm.dev/internal/lazyregexp"
)

func TestMatchString(t *testing.T) {
	r := lazyregexp.New(`^a+$`)
	for range 2 {
		if !r.MatchString("aa") || r.MatchString("ab") {
			t.Error("does not match as it should")
		}
	}
	broken := lazyregexp.New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("an expression that does not compile did not panic at its first use")
		}
	}()
	broken.MatchString("")
}
