package cli

import (
	"slices"
	"strings"
	"sync"

	"realm.dev/contract"
	"realm.dev/realm"
)

// listSessions returns the sessions of this user. A directory that cannot be
// read as one is told of, and does not hide the others; one without a record
// belongs to a session that is only being made, or to the sweep.
func (a *app) listSessions() (realm.Dirs, []contract.SessionDetail, error) {
	dirs, err := realm.DefaultDirs()
	if err != nil {
		return dirs, nil, err
	}
	list, broken := realm.List(dirs)
	for _, err := range broken {
		if contract.CodeOf(err) != contract.SessionNotFound {
			report(a.Err, err)
		}
	}
	return dirs, list, nil
}

// findSession returns the one session whose id is name or begins with it.
// Argument is the place of name on the command line.
func findSession(list []contract.SessionDetail, name string, argument int) (contract.SessionDetail, error) {
	var found []contract.SessionDetail
	for _, d := range list {
		switch id := d.Record.SessionID; {
		case id == name:
			return d, nil
		case name != "" && strings.HasPrefix(id, name):
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return contract.SessionDetail{}, contract.Errorf(contract.SessionNotFound, "argument %d names no session of this user", argument).
			WithHint("see 'realm ps -a'")
	}
	return contract.SessionDetail{}, contract.Errorf(contract.SessionNotFound, "argument %d is the beginning of %d ids", argument, len(found)).
		WithHint("give more of the id; see 'realm ps -a'")
}

// about says which session err is about. The id is realm's own.
func about(d contract.SessionDetail, err error) error {
	told := *contract.AsError(err)
	told.Detail = strings.TrimSuffix("session "+d.Record.SessionID+": "+told.Detail, ": ")
	return &told
}

// forEach does something with several sessions at once. All that fails is told
// of; the exit code is that of the first.
func (a *app) forEach(list []contract.SessionDetail, do func(i int, d contract.SessionDetail) error) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, d := range list {
		wg.Go(func() { errs[i] = do(i, d) })
	}
	wg.Wait()
	var first error
	for i, err := range errs {
		if err == nil {
			continue
		}
		report(a.Err, about(list[i], err))
		if first == nil {
			first = exitWith(exitCode(err))
		}
	}
	return first
}

// findSessions finds a session for each name.
func findSessions(list []contract.SessionDetail, names []string) ([]contract.SessionDetail, error) {
	var found []contract.SessionDetail
	for i, name := range names {
		d, err := findSession(list, name, i+1)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(f contract.SessionDetail) bool { return f.Record.SessionID == d.Record.SessionID }) {
			found = append(found, d)
		}
	}
	return found, nil
}
