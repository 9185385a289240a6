package realm

import "realm.dev/contract"

// fact is something that the owner of a session learns.
type fact int

const (
	begin         fact = iota // the session may start
	booted                    // every probe passed
	bootFailed                // the start failed; all it had acquired is released
	stopAsked                 // somebody asked to stop, or the workload has ended
	lost                      // the container or its supervisor is gone
	released                  // the teardown is done; nothing is left
	releaseFailed             // the teardown is done; something could not be removed
)

// effect is what the owner sets off after a fact.
type effect int

const (
	nothing effect = iota
	boot
	cancelBoot
	teardown
)

// step is the row of the table for one fact in one state.
type step struct {
	to     contract.State
	effect effect
}

// lifecycle is all that a session does. A fact without a row changes nothing: it
// came too late to matter (a second stop, a loss while stopping).
//
// A lost session stays `ready` on disk until its teardown is done and it can
// truthfully be called `failed`: the boolean of the key says that it is lost.
var lifecycle = map[stage]map[fact]step{
	{contract.Pending, false}: {
		begin:     {contract.Starting, boot},
		stopAsked: {contract.Stopping, teardown},
	},
	{contract.Starting, false}: {
		booted:     {contract.Ready, nothing},
		bootFailed: {contract.Failed, nothing},
		stopAsked:  {contract.Stopping, cancelBoot},
	},
	{contract.Ready, false}: {
		stopAsked: {contract.Stopping, teardown},
		lost:      {contract.Ready, teardown},
	},
	{contract.Ready, true}: {
		released:      {contract.Failed, nothing},
		releaseFailed: {contract.Failed, nothing},
	},
	{contract.Stopping, false}: {
		booted:        {contract.Stopping, teardown}, // the boot won the race against its cancellation
		bootFailed:    {contract.Stopped, nothing},
		released:      {contract.Stopped, nothing},
		releaseFailed: {contract.Failed, nothing},
	},
}

// stage is where a session is: its state, and whether it is lost.
type stage struct {
	state contract.State
	lost  bool
}

// next is the whole lifecycle as a pure function.
func next(at stage, f fact) (to stage, e effect, ok bool) {
	row, ok := lifecycle[at][f]
	if !ok {
		return at, nothing, false
	}
	return stage{row.to, row.to == contract.Ready && (at.lost || f == lost)}, row.effect, true
}
