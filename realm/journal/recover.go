package journal

import (
	"bytes"
	"io"
	"os"

	"realm.dev/contract"
	"realm.dev/internal/private"
)

// tailWindow is what is read from the end: an unfinished line and the whole
// one before it.
const tailWindow = 2 * maxLine

// recoverTail finds the last whole line of f, takes away what follows it, and
// returns the file's size then.
func recoverTail(f *os.File) (Recovered, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return Recovered{}, 0, private.Failed(Name, "cannot be read", err)
	}
	size := info.Size()
	window := make([]byte, min(size, tailWindow))
	if _, err := f.ReadAt(window, size-int64(len(window))); err != nil && err != io.EOF {
		return Recovered{}, 0, private.Failed(Name, "cannot be read", err)
	}
	line, torn := lastLine(window)
	if line == nil && size > tailWindow {
		return Recovered{}, 0, damaged("no line ends near its end")
	}
	found := Recovered{Head: Head{Hash: contract.FirstPrev}, Torn: int64(torn)}
	if line != nil {
		entry, err := parse(line)
		if err != nil {
			return Recovered{}, 0, damaged("its last line is not an audit entry")
		}
		found.Head = Head{Seq: entry.Seq, Hash: hashOf(line)}
	}
	if torn == 0 {
		return found, size, nil
	}
	size -= int64(torn)
	if err := f.Truncate(size); err != nil {
		return Recovered{}, 0, private.Failed(Name, "cannot be repaired", err)
	}
	if err := f.Sync(); err != nil {
		return Recovered{}, 0, private.Failed(Name, "cannot be synced", err)
	}
	return found, size, nil
}

// lastLine returns the last whole line of the window, without its newline, and
// how many bytes follow it. A line with a NUL was never written by Append: it
// is a page that a power loss left unwritten, and counts as torn.
func lastLine(window []byte) (line []byte, torn int) {
	rest := window
	for {
		end := bytes.LastIndexByte(rest, '\n')
		if end < 0 {
			return nil, len(window)
		}
		start := bytes.LastIndexByte(rest[:end], '\n') + 1
		if line := rest[start:end]; !bytes.Contains(line, []byte{0}) {
			return line, len(window) - end - 1
		}
		rest = rest[:start]
	}
}

func damaged(what string) *contract.Error {
	return contract.Errorf(contract.SchemaInvalid, "%s: %s", Name, what)
}
