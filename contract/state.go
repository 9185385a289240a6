package contract

import "slices"

// transitions is the whole life of a session. "" is no session yet.
var transitions = map[State][]State{
	"":       {Pending},
	Pending:  {Starting, Stopping, Failed},
	Starting: {Ready, Stopping, Failed},
	Ready:    {Stopping, Failed},
	Stopping: {Stopped, Failed},
	Stopped:  {},
	Failed:   {},
}

// States returns the six states in the order of a session's life.
func States() []State { return []State{Pending, Starting, Ready, Stopping, Stopped, Failed} }

// Next returns nil when a session may go from one state to the other; from is ""
// for a session that does not exist yet. Any other pair is a defect of realm.
func Next(from, to State) error {
	if slices.Contains(transitions[from], to) {
		return nil
	}
	return Errorf(Internal, "a session cannot go from %s to %s", from.name(), to.name())
}

// Terminal reports whether a session ends in s.
func (s State) Terminal() bool { return s == Stopped || s == Failed }

// name is fit for an error text, whatever s is.
func (s State) name() string {
	switch {
	case s == "":
		return "(none)"
	case slices.Contains(States(), s):
		return string(s)
	}
	return "(unknown state)"
}
