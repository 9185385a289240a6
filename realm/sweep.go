package realm

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/realm/control"
	"realm.dev/realm/journal"
	"realm.dev/realm/workspace"
)

// Leftover is something that a dead session left behind.
type Leftover struct {
	Session string `json:"session"`
	Kind    string `json:"kind"` // record, container, socket, link, box, directory
	What    string `json:"what"`
}

// Sweep finds what dead sessions left behind and, unless dryRun, removes it: a
// session is dead when nobody holds its lock. Their records become `failed`
// with an unknown outcome; terminal records stay until somebody removes them.
// What cannot be removed is an error; the rest is swept all the same.
func (m *Manager) Sweep(ctx context.Context, dryRun bool) ([]Leftover, error) {
	unlock, err := m.dirs.lockSweep(true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	sw := &sweep{m: m, dry: dryRun, live: map[string]bool{}, containers: map[string][]container.Status{}}
	if err := sw.list(ctx); err != nil {
		return nil, err
	}
	sw.sessions(ctx)
	sw.orphans(ctx)
	sw.sockets()
	if !dryRun {
		sw.note(workspace.Sweep(m.dirs.State, func(id string) bool { return sw.live[id] }))
	}
	return sw.found, errors.Join(sw.errs...)
}

type sweep struct {
	m    *Manager
	dry  bool
	live map[string]bool // sessions whose lock is held
	// containers of this realm by session, as the engine lists them
	containers map[string][]container.Status
	found      []Leftover
	errs       []error
}

func (sw *sweep) note(err error) {
	if err != nil {
		sw.errs = append(sw.errs, err)
	}
}

func (sw *sweep) add(session, kind, what string) {
	sw.found = append(sw.found, Leftover{session, kind, what})
}

// sessions looks at every session directory. One that is broken is reported and
// never keeps the others from being swept.
func (sw *sweep) sessions(ctx context.Context) {
	entries, err := os.ReadDir(sw.m.dirs.sessions())
	if err != nil {
		sw.note(err)
		return
	}
	for _, e := range entries {
		id := e.Name()
		if !e.IsDir() || !validID(id) {
			continue
		}
		alive, err := sw.m.dirs.owned(id)
		sw.note(err)
		if alive || err != nil { // when in doubt it lives
			sw.live[id] = true
			continue
		}
		sw.session(ctx, id)
	}
}

// session finishes one dead session. Nobody can come back to life in its
// directory: a lock is taken when the directory is made, and sweeps exclude that.
func (sw *sweep) session(ctx context.Context, id string) {
	dir := sw.m.dirs.session(id)
	rec, err := journal.ReadRecord(dir)
	if contract.CodeOf(err) == contract.SessionNotFound {
		sw.add(id, "directory", dir) // died before its first record
		if !sw.dry {
			sw.note(errors.Join(sw.remove(ctx, id), os.RemoveAll(dir)))
		}
		return
	}
	if err == nil && !rec.State.Terminal() {
		sw.add(id, "record", string(rec.State))
	}
	if sw.dry {
		return
	}
	// The container goes first: a record must not say `failed` while it runs.
	if err := sw.remove(ctx, id); err != nil {
		sw.note(err)
		sw.live[id] = true // its container may still run: nothing that it uses is taken away
		return
	}
	switch {
	case err != nil:
		sw.note(err) // a record that cannot be read is reported, never adopted
	case !rec.State.Terminal():
		sw.note(finish(dir, rec))
	}
}

// finish writes the end of a session whose realm died.
func finish(dir string, rec contract.SessionRecord) error {
	d, err := journal.ReadDetail(dir)
	if err != nil {
		d = contract.SessionDetail{Record: rec}
	}
	now := time.Now().UTC()
	from := rec.State
	d.Record = rec
	d.Record.State, d.EndedAt = contract.Failed, &now
	d.Outcome = &contract.Outcome{
		Source: contract.FromRealm, Reason: "lost",
		Error: contract.Errorf(contract.SessionLost, "realm ended before the session did"),
	}
	st, err := openStore(dir)
	if err != nil {
		return err
	}
	defer st.close()
	if st.torn > 0 {
		d.Degraded = append(d.Degraded, "the journal's last line was cut off by realm's end")
	}
	return st.transition(from, &d, d.Outcome.Error)
}

// list asks the engine once for all containers of this realm.
func (sw *sweep) list(ctx context.Context) error {
	all, err := sw.m.engine.List(ctx, map[string]string{container.LabelRealm: sw.m.realmID})
	for _, c := range all {
		id := c.Labels[container.LabelSession]
		sw.containers[id] = append(sw.containers[id], c)
	}
	return err
}

// remove removes what a dead session still has on the engine.
func (sw *sweep) remove(ctx context.Context, id string) error {
	var errs []error
	for _, c := range sw.containers[id] {
		sw.add(id, "container", c.Name)
		if !sw.dry {
			errs = append(errs, sw.m.engine.Remove(ctx, c.ID))
		}
	}
	delete(sw.containers, id)
	return errors.Join(errs...)
}

// orphans removes containers whose session has no directory any more.
func (sw *sweep) orphans(ctx context.Context) {
	for id := range sw.containers {
		if sw.live[id] {
			continue
		}
		if err := sw.remove(ctx, id); err != nil {
			sw.note(err)
			sw.live[id] = true
		}
	}
}

// sockets removes what is in the runtime directory of sessions that are not
// alive; their containers are gone by then.
func (sw *sweep) sockets() {
	dir := filepath.Join(sw.m.dirs.Runtime, sw.m.realmID)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			sw.note(err)
		}
		return
	}
	for _, e := range entries {
		id, kind, ok := strings.Cut(e.Name(), ".")
		if !ok || !validID(id) || sw.live[id] {
			continue
		}
		path := filepath.Join(dir, e.Name())
		sw.add(id, strings.Replace(kind, "sock", "socket", 1), path)
		if sw.dry {
			continue
		}
		if kind == "link" || kind == "box" {
			sw.note(removeBox(path))
			continue
		}
		// One that still answers tells the end of its session for a moment.
		if _, err := control.RemoveStale(path); contract.CodeOf(err) != contract.SessionState {
			sw.note(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
