package contract

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// allowed is the table of the design, written a second time.
var allowed = map[[2]State]bool{
	{"", Pending}:        true,
	{Pending, Starting}:  true,
	{Pending, Stopping}:  true,
	{Pending, Failed}:    true,
	{Starting, Ready}:    true,
	{Starting, Stopping}: true,
	{Starting, Failed}:   true,
	{Ready, Stopping}:    true,
	{Ready, Failed}:      true,
	{Stopping, Stopped}:  true,
	{Stopping, Failed}:   true,
}

func TestNext(t *testing.T) {
	all := append([]State{"", "paused", "PENDING"}, States()...)
	for _, from := range all {
		for _, to := range all {
			err := Next(from, to)
			if want := allowed[[2]State{from, to}]; want != (err == nil) {
				t.Errorf("%q to %q: allowed is %v, want %v", from, to, err == nil, want)
			}
			if err != nil && CodeOf(err) != Internal {
				t.Errorf("%q to %q: %v", from, to, err)
			}
		}
	}
}

// Whatever is asked of a session: it only moves along the table, ends in a
// terminal state within four more steps when it keeps moving, and never leaves it.
func TestLivesEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, moves := State(""), 0
		for range rapid.IntRange(1, 60).Draw(t, "attempts") {
			to := rapid.SampledFrom(append(States(), "", "unknown")).Draw(t, "to")
			was := state.Terminal()
			if Next(state, to) != nil {
				continue
			}
			if was {
				t.Fatalf("%s was left for %s", state, to)
			}
			if !slices.Contains(States(), to) {
				t.Fatalf("%q is no state", to)
			}
			state = to
			moves++
		}
		if moves > 5 {
			t.Fatalf("%d transitions in one life", moves)
		}
		if moves == 5 && !state.Terminal() {
			t.Fatalf("still %s after %d transitions", state, moves)
		}
	})
}
