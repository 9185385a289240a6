package journal

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"realm.dev/contract"
)

// ErrTorn is the cause of the error for a last line without a newline: it was
// cut short, or is being written right now.
var ErrTorn = errors.New("torn line")

// Reader reads a journal from its first line and checks the chain.
type Reader struct {
	r    *bufio.Reader
	head Head
	err  error
}

// NewReader returns a Reader of r.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, maxLine), head: Head{Hash: contract.FirstPrev}}
}

// Next returns the next entry, and io.EOF after the last. Any other error
// names its line, and is final.
func (r *Reader) Next() (contract.AuditEntry, error) {
	if r.err != nil {
		return contract.AuditEntry{}, r.err
	}
	entry, err := r.next()
	r.err = err
	return entry, err
}

// Head is the entry that Next returned last.
func (r *Reader) Head() Head { return r.head }

func (r *Reader) next() (contract.AuditEntry, error) {
	line, err := r.r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(line) == 0:
		return contract.AuditEntry{}, io.EOF
	case errors.Is(err, io.EOF):
		return contract.AuditEntry{}, r.bad("has no end").WithCause(ErrTorn)
	case errors.Is(err, bufio.ErrBufferFull):
		return contract.AuditEntry{}, r.bad("is too long")
	case err != nil:
		return contract.AuditEntry{}, contract.Errorf(contract.Internal, "journal: line %d cannot be read", r.head.Seq+1).WithCause(err)
	}
	line = line[:len(line)-1]
	entry, err := parse(line)
	switch {
	case err != nil:
		return contract.AuditEntry{}, r.bad("is not an audit entry").WithCause(err)
	case entry.Seq != r.head.Seq+1:
		return contract.AuditEntry{}, r.bad("has another number: lines are missing or out of order")
	case entry.Prev != r.head.Hash:
		return contract.AuditEntry{}, r.bad("does not hold the hash of the line before: one of them was changed")
	}
	r.head = Head{Seq: entry.Seq, Hash: hashOf(line)}
	return entry, nil
}

func (r *Reader) bad(what string) *contract.Error {
	return contract.Errorf(contract.SchemaInvalid, "journal: line %d %s", r.head.Seq+1, what)
}

// parse decodes a line and wants it exactly as Append writes it, so that equal
// entries have equal hashes.
func parse(line []byte) (contract.AuditEntry, error) {
	entry, err := contract.Decode[contract.AuditEntry](line)
	if err != nil {
		return contract.AuditEntry{}, err
	}
	again, err := contract.Encode(entry)
	if err != nil {
		return contract.AuditEntry{}, err
	}
	if !bytes.Equal(line, again) {
		return contract.AuditEntry{}, contract.Errorf(contract.SchemaInvalid, "the line is not written as realm writes it")
	}
	return entry, nil
}

func hashOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Verify reads a whole journal and returns its last line. It fails at the
// first line that was changed, taken out or put in. A head, when one is given,
// is a hash that the session told somebody: if no line has it, the tail was cut.
func Verify(r io.Reader, head string) (Head, error) {
	reader := NewReader(r)
	seen := head == "" || head == contract.FirstPrev
	for {
		switch _, err := reader.Next(); {
		case errors.Is(err, io.EOF) && !seen:
			return reader.Head(), contract.Errorf(contract.SchemaInvalid,
				"journal: line %d is the last, and no line has the hash of the head: lines after it are missing", reader.Head().Seq)
		case errors.Is(err, io.EOF):
			return reader.Head(), nil
		case err != nil:
			return reader.Head(), err
		}
		seen = seen || reader.Head().Hash == head
	}
}
