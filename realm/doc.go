// Package realm runs sessions: one session is one container behind one door.
//
// A Manager creates sessions and sweeps what dead ones left. A Session is owned
// by one goroutine that alone moves it through the six states; everything slow
// runs beside it and reports back as a fact (lifecycle.go). A transition is
// first in the journal, then in the record file, then in memory, then on the
// control socket: nobody sees a state that is not on disk.
package realm
