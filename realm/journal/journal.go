package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/internal/private"
)

// Names of the files in a session's directory.
const (
	Name       = "journal.ndjson"
	RecordName = "record.json"
	DetailName = "detail.json"
)

const (
	// maxLine bounds a line with its newline.
	maxLine = 64 << 10
	// syncDelay is how long a line that nobody waits for stays unsynced.
	syncDelay = 50 * time.Millisecond
)

// Head is the last line of a journal.
type Head struct {
	Seq  int64  // 0: no line yet
	Hash string // hex SHA-256 of the line without its newline; contract.FirstPrev: no line yet
}

// Recovered tells what Open found.
type Recovered struct {
	Head Head
	Torn int64 // bytes of an unfinished last line that were taken away
}

// Journal is the open journal of one session. Only one process may have it
// open, which the session's lock sees to. It is safe for concurrent use.
type Journal struct {
	syncMu sync.Mutex // held during fsync; taken before mu
	synced int64      // the last line that is on disk

	mu     sync.Mutex
	file   *os.File
	size   int64
	head   Head
	timer  *time.Timer // pending sync of a line that nobody waits for
	broken error       // set once; nothing is appended after it
}

// Open opens the journal in the directory dir of a session and makes it when
// it is not there. An unfinished last line is taken away and reported.
func Open(dir string) (*Journal, Recovered, error) {
	d, err := private.OpenDir(dir)
	if err != nil {
		return nil, Recovered{}, err
	}
	defer d.Close()
	f, err := d.Open(Name, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT)
	if err != nil {
		return nil, Recovered{}, err
	}
	found, size, err := recoverTail(f)
	if err == nil {
		err = d.Sync() // the name must last as well
	}
	if err != nil {
		f.Close()
		return nil, Recovered{}, err
	}
	return &Journal{file: f, size: size, head: found.Head, synced: found.Head.Seq}, found, nil
}

// Head returns the last line.
func (j *Journal) Head() Head {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.head
}

// Append writes e as the next line; it fills in number, time and the hash of
// the line before. With sync it returns when the line is on disk, with all
// before it; without, the line survives the death of this process at once and
// a power loss after 50 ms. After LIMIT_EXCEEDED (a full disk) the line is not
// there and the next one may succeed; any other failure is final.
func (j *Journal) Append(e contract.AuditEntry, sync bool) (Head, error) {
	head, err := j.append(e, !sync)
	if err != nil || !sync {
		return head, err
	}
	return head, j.syncTo(head.Seq)
}

func (j *Journal) append(e contract.AuditEntry, later bool) (Head, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return Head{}, j.broken
	}
	e.Seq, e.Prev, e.Time = j.head.Seq+1, j.head.Hash, time.Now().UTC()
	line, err := contract.Encode(e)
	if err != nil {
		return Head{}, err
	}
	if len(line) >= maxLine {
		return Head{}, contract.Errorf(contract.LimitExceeded, "journal: an entry has more than %d bytes", maxLine-1)
	}
	hash := sha256.Sum256(line)
	if err := j.writeLocked(append(line, '\n')); err != nil {
		return Head{}, err
	}
	j.head = Head{Seq: e.Seq, Hash: hex.EncodeToString(hash[:])}
	if later && j.timer == nil {
		j.timer = time.AfterFunc(syncDelay, j.syncLate)
	}
	return j.head, nil
}

// writeLocked appends one line, whole or not at all.
func (j *Journal) writeLocked(line []byte) error {
	n, err := j.file.Write(line)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	// A full disk may have taken a part. Without it the next line, when there
	// is room again, follows a whole one.
	if truncErr := j.file.Truncate(j.size); truncErr != nil {
		return j.breakLocked("cannot be repaired", truncErr)
	}
	return private.Failed(Name, "cannot be written", err)
}

func (j *Journal) breakLocked(what string, cause error) error {
	if j.broken == nil {
		j.broken = private.Failed(Name, what, cause)
	}
	return j.broken
}

// syncTo returns when line seq is on disk. Those who wait for the same fsync
// share it.
func (j *Journal) syncTo(seq int64) error {
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	if j.synced >= seq {
		return nil
	}
	j.mu.Lock()
	last, err := j.head.Seq, j.broken
	j.mu.Unlock()
	if err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		// The kernel has dropped the pages and will not say so again: a later
		// fsync that succeeds would prove nothing.
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.breakLocked("cannot be synced", err)
	}
	j.synced = last
	return nil
}

func (j *Journal) syncLate() {
	j.mu.Lock()
	j.timer = nil
	last := j.head.Seq
	j.mu.Unlock()
	_ = j.syncTo(last) // the next Append returns the error
}

// Close syncs and closes the journal. Closing again does nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.timer != nil {
		j.timer.Stop()
	}
	last, broken := j.head.Seq, j.broken
	j.mu.Unlock()
	if broken == nil {
		broken = j.syncTo(last)
	}
	j.syncMu.Lock() // no fsync runs
	defer j.syncMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.broken, errClosed) {
		return nil
	}
	j.broken = errClosed
	if err := j.file.Close(); err != nil && broken == nil {
		broken = private.Failed(Name, "cannot be closed", err)
	}
	return broken
}

var errClosed = contract.Errorf(contract.Internal, "journal: it is closed")
