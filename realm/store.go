package realm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"realm.dev/contract"
	"realm.dev/internal/buildinfo"
	"realm.dev/realm/journal"
)

// store is a session's directory: its lock, journal, record and detail. The
// order of every transition is here: journal (on disk), record file (on disk),
// then the caller may show it.
type store struct {
	dir     string
	lock    *flock.Flock
	journal *journal.Journal
	torn    int64 // bytes of a half-written last line that were cut off
}

// createStore makes the directory of a new session and takes its lock. No sweep
// can see the directory without the lock.
func (d Dirs) createStore(id string) (*store, error) {
	unlock, err := d.lockSweep(false)
	if err != nil {
		return nil, err
	}
	defer unlock()
	dir := d.session(id)
	if err := os.Mkdir(dir, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, contract.Errorf(contract.SessionState, "a session of this id exists").
				WithHint("choose another id, or remove the old one with realm rm")
		}
		return nil, diskError(err)
	}
	st, err := openStore(dir)
	if err != nil {
		_ = os.RemoveAll(dir)
	}
	return st, err
}

// openStore takes the lock of a session's directory and opens its journal.
func openStore(dir string) (*store, error) {
	lock := flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, diskError(err)
	}
	if !ok {
		return nil, contract.Errorf(contract.SessionState, "another realm owns this session")
	}
	j, recovered, err := journal.Open(dir)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &store{dir: dir, lock: lock, journal: j, torn: recovered.Torn}, nil
}

// lockSweep keeps sweeps (exclusive) and the making of directories (shared)
// apart.
func (d Dirs) lockSweep(exclusive bool) (unlock func(), err error) {
	l := flock.New(d.sweepLock(), flock.SetPermissions(0o600))
	take := l.TryRLockContext
	if exclusive {
		take = l.TryLockContext
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepWait)
	defer cancel()
	switch _, err := take(ctx, 5*time.Millisecond); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, contract.Errorf(contract.SessionState, "another realm has been sweeping for %s", sweepWait).
			WithHint("see what holds Podman up: run realm doctor")
	case err != nil:
		return nil, diskError(err)
	}
	return func() { _ = l.Close() }, nil
}

// sweepWait bounds the wait for another process's sweep.
const sweepWait = time.Minute

// owned reports whether a living process owns the session.
func (d Dirs) owned(id string) (bool, error) {
	path := filepath.Join(d.session(id), "lock")
	if !exists(path) {
		return false, nil
	}
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err := l.TryRLock()
	_ = l.Close()
	if err != nil {
		return false, diskError(err)
	}
	return !ok, nil
}

// pending writes the first record, before anything else of the session exists.
func (st *store) pending(d *contract.SessionDetail) error {
	return st.transition("", d, nil)
}

// transition puts a move to d's state on disk: journal first, then the detail,
// then the record, which is what others read.
func (st *store) transition(from contract.State, d *contract.SessionDetail, cause error) error {
	body := &contract.AuditTransition{From: from, To: d.Record.State, ContainerID: d.Record.ContainerID}
	if cause != nil {
		body.Code = contract.CodeOf(cause)
	}
	if d.Outcome != nil {
		body.Why = d.Outcome.Reason
	}
	e := contract.AuditEntry{Session: d.Record.SessionID, Kind: contract.KindTransition, Transition: body}
	if _, err := st.journal.Append(e, true); err != nil {
		return err
	}
	if err := journal.WriteDetail(st.dir, *d); err != nil {
		return err
	}
	return journal.WriteRecord(st.dir, d.Record)
}

// started journals the facts that a session starts from.
func (st *store) started(epoch string, d *contract.SessionDetail) error {
	_, err := st.journal.Append(contract.AuditEntry{Session: d.Record.SessionID, Kind: contract.KindStart, Start: &contract.AuditStart{
		Realm: buildinfo.Read().Version, Epoch: epoch, WorkspaceRoot: d.Record.WorkspaceRoot, Mode: d.Mode, Git: d.Git,
		PolicyDigest: d.PolicyDigest, Image: d.Image, Engine: d.Engine,
	}}, false)
	return err
}

// intent journals a call before it runs; without it the call does not run.
func (st *store) intent(session, id string, call *contract.ToolCall, input [sha256.Size]byte) error {
	in := &contract.AuditIntent{CallID: id, Door: contract.DoorAgent, Tool: call.Tool(), InputSHA256: hex.EncodeToString(input[:])}
	if e := call.Exec; e != nil {
		in.Path, in.Program = e.Cwd, programName(e)
	}
	_, err := st.journal.Append(contract.AuditEntry{Session: session, Kind: contract.KindIntent, Intent: in}, false)
	return err
}

// programName is the name of a call's program, without its directory.
func programName(e *contract.ExecCall) string {
	if e.Shell || len(e.Argv) == 0 {
		return "sh"
	}
	return path.Base(e.Argv[0])
}

// outcome journals how a call ended.
func (st *store) outcome(session string, res *contract.ToolResult) error {
	out := &contract.AuditOutcome{CallID: res.CallID}
	if res.Error != nil {
		out.Code = res.Error.Code
	}
	if e := res.Exec; e != nil {
		out.Outcome, out.ExitCode, out.Signal = e.Outcome, e.ExitCode, e.Signal
		out.StdoutBytes, out.StderrBytes, out.DurationMs = e.Stdout.Bytes, e.Stderr.Bytes, e.DurationMs
	}
	_, err := st.journal.Append(contract.AuditEntry{Session: session, Kind: contract.KindOutcome, Outcome: out}, false)
	return err
}

// spill returns how to make the file for a stream that is too long to keep.
func (st *store) spill(stream string) func() (*os.File, error) {
	return func() (*os.File, error) {
		dir := filepath.Join(st.dir, "spill")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		// Not named by the call's id, which is the caller's text.
		return os.CreateTemp(dir, stream+"-*")
	}
}

func (st *store) close() {
	_ = st.journal.Close()
	_ = st.lock.Close()
}

// discard removes a session that never became one.
func (st *store) discard() {
	_ = os.RemoveAll(st.dir)
	st.close()
}

// diskError gives a failure of realm's own directories its code.
func diskError(err error) *contract.Error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return contract.Errorf(contract.LimitExceeded, "the state directory is full").WithCause(err)
	}
	return contract.Errorf(contract.Internal, "the state directory cannot be used").WithCause(err)
}

// removeBox removes the files that a session's container was made of.
func removeBox(dir string) error {
	err := os.RemoveAll(dir)
	if err != nil {
		return contract.Errorf(contract.Internal, "what a session was made of could not be removed").WithCause(err)
	}
	return nil
}

// List returns the sessions on disk, oldest first. A directory that cannot be
// read is an error beside the others, never instead of them.
func List(d Dirs) ([]contract.SessionDetail, []error) {
	entries, err := os.ReadDir(d.sessions())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []error{diskError(err)}
	}
	var list []contract.SessionDetail
	var errs []error
	for _, e := range entries {
		if !e.IsDir() || !validID(e.Name()) {
			continue
		}
		detail, err := readSession(d, e.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		list = append(list, detail)
	}
	slices.SortFunc(list, func(a, b contract.SessionDetail) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, errs
}

// readSession reads one session; the record, which is written last, wins.
func readSession(d Dirs, id string) (contract.SessionDetail, error) {
	rec, err := journal.ReadRecord(d.session(id))
	if err != nil {
		return contract.SessionDetail{}, err
	}
	detail, err := journal.ReadDetail(d.session(id))
	if err != nil {
		return contract.SessionDetail{}, err
	}
	detail.Record = rec
	return detail, nil
}

// Remove deletes a session that is over, with its journal and spilled output.
func Remove(d Dirs, id string) error {
	if !validID(id) || !exists(d.session(id)) {
		return contract.Errorf(contract.SessionNotFound, "no session of this id")
	}
	unlock, err := d.lockSweep(true)
	if err != nil {
		return err
	}
	defer unlock()
	alive, err := d.owned(id)
	if err != nil {
		return err
	}
	if alive {
		return contract.Errorf(contract.SessionState, "the session is running").WithHint("realm stop it first")
	}
	rec, err := journal.ReadRecord(d.session(id))
	if err == nil && !rec.State.Terminal() {
		return contract.Errorf(contract.SessionState, "the session did not end by itself and is not swept yet").
			WithHint("run realm gc, then realm rm")
	}
	if err := os.RemoveAll(d.session(id)); err != nil {
		return diskError(err)
	}
	return nil
}
