package journal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"realm.dev/contract"
)

// seedLines is a journal as Append writes it.
func seedLines(f *testing.F) []byte {
	f.Helper()
	dir := sessionDir(f)
	j, _, err := Open(dir)
	if err != nil {
		f.Fatal(err)
	}
	uid, code := int64(1000), 0
	for _, e := range []contract.AuditEntry{
		transition("", contract.Pending),
		intent("a"),
		{Kind: contract.KindDecision, Decision: &contract.AuditDecision{CallID: "a", Effect: contract.Allow, By: contract.ByPerson, UID: &uid}},
		{Kind: contract.KindOutcome, Outcome: &contract.AuditOutcome{CallID: "a", Outcome: contract.Exited, ExitCode: &code, DurationMs: 3}},
		{Kind: contract.KindEgress, Egress: &contract.AuditEgress{Host: "a.example", Port: 443, Effect: contract.Deny}},
	} {
		e.Session = "s1"
		if _, err := j.Append(e, false); err != nil {
			f.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzRead: reading never panics, and lines that are accepted are written
// again as the same bytes, with the same chain.
func FuzzRead(f *testing.F) {
	b := seedLines(f)
	f.Add(b)
	f.Add(b[:len(b)-7])
	f.Add(bytes.ReplaceAll(b, []byte("\n"), []byte("\n\n")))
	f.Add(bytes.Replace(b, []byte("Z\""), []byte("+01:00\""), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data))
		var again []byte
		for {
			e, err := r.Next()
			if err != nil {
				if _, second := r.Next(); !errors.Is(second, err) {
					t.Errorf("the error is not final: %v, then %v", err, second)
				}
				if errors.Is(err, io.EOF) && !bytes.Equal(again, data) {
					t.Errorf("accepted, and written again as other bytes")
				}
				break
			}
			line, err := contract.Encode(e)
			if err != nil {
				t.Fatalf("accepted, and cannot be written: %v", err)
			}
			again = append(append(again, line...), '\n')
			if !bytes.HasPrefix(data, again) {
				t.Fatalf("line %d is written again as other bytes", e.Seq)
			}
		}
	})
}

// FuzzOpen: whatever a file holds, Open refuses it and changes nothing, or
// takes away only what follows the last whole line and can be appended to.
func FuzzOpen(f *testing.F) {
	b := seedLines(f)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add(append(b, 0, 0, 0))
	f.Add([]byte("\n"))
	dir := sessionDir(f)
	path := filepath.Join(dir, Name)
	f.Fuzz(func(t *testing.T, data []byte) {
		must(t, os.WriteFile(path, data, 0o600))
		j, found, err := Open(dir)
		after, readErr := os.ReadFile(path)
		must(t, readErr)
		if err != nil {
			if !bytes.Equal(after, data) {
				t.Error("refused, yet changed")
			}
			return
		}
		defer j.Close()
		if !bytes.Equal(after, data[:len(data)-int(found.Torn)]) {
			t.Error("more or less was taken away than said")
		}
		if len(after) > 0 && after[len(after)-1] != '\n' {
			t.Error("what is left does not end a line")
		}
		head, err := j.Append(intent("next"), false)
		if err != nil || head.Seq != found.Head.Seq+1 {
			t.Errorf("append: %v, %v", head, err)
		}
	})
}

// FuzzRecord: reading a record never panics; one that is accepted is written
// and read again as the same value.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"realmId":"local","sessionId":"s1","workspaceRoot":"/w","state":"ready","controlSocketPath":"/s.sock","containerId":"c0ffee"}`))
	f.Add([]byte(`{"realmId":"local","sessionId":"s1","workspaceRoot":"/w","state":"failed","controlSocketPath":"/s.sock"}` + "\n"))
	f.Add([]byte{})
	dir := sessionDir(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		must(t, os.WriteFile(filepath.Join(dir, RecordName), data, 0o600))
		r, err := ReadRecord(dir)
		if err != nil {
			if _, ok := err.(*contract.Error); !ok { //nolint:errorlint // bare, for its type is the promise
				t.Errorf("error of type %T", err)
			}
			return
		}
		must(t, WriteRecord(dir, r))
		again, err := ReadRecord(dir)
		must(t, err)
		if again.SessionID != r.SessionID || again.State != r.State || (again.ContainerID == nil) != (r.ContainerID == nil) ||
			again.ContainerID != nil && *again.ContainerID != *r.ContainerID ||
			again.RealmID != r.RealmID || again.WorkspaceRoot != r.WorkspaceRoot || again.ControlSocketPath != r.ControlSocketPath {
			t.Errorf("got %v, want %v", again, r)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for name, sync := range map[string]bool{"sync": true, "later": false} {
		b.Run(name, func(b *testing.B) {
			j, _, err := Open(sessionDir(b))
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			start := time.Now()
			for b.Loop() {
				if _, err := j.Append(intent("a"), sync); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N), "µs/line")
		})
	}
}
