package realm

import (
	"testing"

	"pgregory.net/rapid"

	"realm.dev/contract"
)

// Whatever is learned in whatever order, a session only makes moves that the
// contract's table allows, begins at most one boot, tears down at most once,
// and can always still end.
func TestLifecycleKeepsTheContract(t *testing.T) {
	facts := []fact{begin, booted, bootFailed, stopAsked, lost, released, releaseFailed}
	rapid.Check(t, func(t *rapid.T) {
		at := stage{state: contract.Pending}
		var boots, teardowns int
		var bootReported bool
		for _, f := range rapid.SliceOf(rapid.SampledFrom(facts)).Draw(t, "facts") {
			// A boot reports once, after it was begun; so does a teardown.
			switch f {
			case booted, bootFailed:
				if boots == 0 || bootReported {
					continue
				}
				bootReported = true
			case released, releaseFailed:
				if teardowns == 0 {
					continue
				}
			case begin, stopAsked, lost:
			}
			to, eff, ok := next(at, f)
			if !ok && (to != at || eff != nothing) {
				t.Fatalf("%v: a fact without a row changed %v to %v", f, at, to)
			}
			if to.state != at.state {
				if err := contract.Next(at.state, to.state); err != nil {
					t.Fatalf("%v after %v: %v", to, at, err)
				}
			}
			if eff == boot {
				boots++
			}
			if eff == teardown {
				teardowns++
			}
			at = to
		}
		if boots > 1 || teardowns > 1 {
			t.Fatalf("%d boots, %d teardowns", boots, teardowns)
		}
		if !at.state.Terminal() && !canEnd(at, map[stage]bool{}) {
			t.Fatalf("no fact leads from %v to an end", at)
		}
	})
}

func canEnd(at stage, seen map[stage]bool) bool {
	if at.state.Terminal() {
		return true
	}
	if seen[at] {
		return false
	}
	seen[at] = true
	for f := range lifecycle[at] {
		if to, _, _ := next(at, f); canEnd(to, seen) {
			return true
		}
	}
	return false
}
