package journal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sessionDir is a directory as a session has one.
func sessionDir(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "s1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustOpen(t *testing.T, dir string) (*Journal, Recovered) {
	t.Helper()
	j, found, err := Open(dir)
	must(t, err)
	t.Cleanup(func() { j.Close() })
	return j, found
}

func transition(from, to contract.State) contract.AuditEntry {
	return contract.AuditEntry{
		Session: "s1", Kind: contract.KindTransition,
		Transition: &contract.AuditTransition{From: from, To: to},
	}
}

func intent(id string) contract.AuditEntry {
	return contract.AuditEntry{
		Session: "s1", Kind: contract.KindIntent,
		Intent: &contract.AuditIntent{
			CallID: id, Door: contract.DoorAgent, Tool: contract.ToolExec, InputSHA256: contract.FirstPrev, Program: "go",
		},
	}
}

// write makes a journal of three lines and returns its bytes and heads.
func write3(t *testing.T, dir string) ([]byte, []Head) {
	t.Helper()
	j, _ := mustOpen(t, dir)
	var heads []Head
	for i, e := range []contract.AuditEntry{transition("", contract.Pending), intent("a"), transition(contract.Pending, contract.Starting)} {
		head, err := j.Append(e, i != 1)
		must(t, err)
		if head != j.Head() || head.Seq != int64(i+1) {
			t.Errorf("line %d: head %v, then %v", i+1, head, j.Head())
		}
		heads = append(heads, head)
	}
	must(t, j.Close())
	b, err := os.ReadFile(filepath.Join(dir, Name))
	must(t, err)
	return b, heads
}

func TestAppendAndVerify(t *testing.T) {
	dir := sessionDir(t)
	b, heads := write3(t, dir)
	for _, head := range append(heads, Head{}, Head{Hash: contract.FirstPrev}) {
		last, err := Verify(bytes.NewReader(b), head.Hash)
		if err != nil || last != heads[2] {
			t.Errorf("head %v: got %v, %v", head, last, err)
		}
	}
	r := NewReader(bytes.NewReader(b))
	var kinds []contract.AuditKind
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if time.Since(e.Time) > time.Hour || e.Time.Location() != time.UTC {
			t.Errorf("line %d: time %v", e.Seq, e.Time)
		}
		kinds = append(kinds, e.Kind)
	}
	want := []contract.AuditKind{contract.KindTransition, contract.KindIntent, contract.KindTransition}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(filepath.Join(dir, Name))
	must(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// Every change of the bytes is found, and the line is named.
func TestVerifyFindsChanges(t *testing.T) {
	b, heads := write3(t, sessionDir(t))
	lines := bytes.SplitAfter(b, []byte("\n"))[:3]
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	edit := func(i int, old, replacement string) []byte {
		changed := append([][]byte(nil), lines...)
		changed[i] = bytes.Replace(lines[i], []byte(old), []byte(replacement), 1)
		if bytes.Equal(changed[i], lines[i]) {
			t.Fatalf("nothing to edit: %s", old)
		}
		return join(changed...)
	}
	tests := map[string]struct {
		bytes []byte
		want  string
	}{
		"first line edited":     {edit(0, `"pending"`, `"stopped"`), "line 2"},
		"middle line edited":    {edit(1, `"go"`, `"gu"`), "line 3"},
		"last line edited":      {edit(2, `"starting"`, `"stopping"`), "head"},
		"first line taken out":  {join(lines[1], lines[2]), "line 1"},
		"middle line taken out": {join(lines[0], lines[2]), "line 2"},
		"last line taken out":   {join(lines[0], lines[1]), "line 2 is the last"},
		"all taken out":         {nil, "line 0 is the last"},
		"two lines exchanged":   {join(lines[0], lines[2], lines[1]), "line 2"},
		"line put in twice":     {join(lines[0], lines[0], lines[1], lines[2]), "line 2"},
		"line of space put in":  {join(lines[0], []byte("\n"), lines[1], lines[2]), "line 2"},
		"spaces put in":         {edit(1, `"seq":2`, `"seq": 2`), "line 2"},
		"key put in":            {edit(1, `"seq":2`, `"seq":2,"x":1`), "line 2"},
		"time in another form":  {edit(1, `Z"`, `+00:00"`), "line 2"},
		"last line renumbered":  {edit(2, `"seq":3`, `"seq":4`), "line 3 has another number"},
		"torn":                  {b[:len(b)-1], "line 3"},
		"not UTF-8":             {edit(1, `"go"`, "\"\xff\""), "line 2"},
		"too long":              {join(lines[0], bytes.Repeat([]byte("a"), maxLine+1)), "line 2 is too long"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Verify(bytes.NewReader(tt.bytes), heads[2].Hash)
			if contract.CodeOf(err) != contract.SchemaInvalid || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want SCHEMA_INVALID with %q", err, tt.want)
			}
			if got := errors.Is(err, ErrTorn); got != (name == "torn") {
				t.Errorf("torn: %v", got)
			}
		})
	}
}

// Whatever part of the last line reached the disk, the next Open goes on after
// the last whole line and says what it took away.
func TestReopenAfterTornLine(t *testing.T) {
	b, heads := write3(t, sessionDir(t))
	ends := []int{0}
	for i, c := range b {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	for cut := range len(b) + 1 {
		// Near the ends of lines each byte, elsewhere some: every open syncs.
		if near := slices.ContainsFunc(ends, func(end int) bool { return max(cut-end, end-cut) <= 2 }); !near && cut%41 != 0 {
			continue
		}
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= cut {
			whole++
		}
		want := Recovered{Head: Head{Hash: contract.FirstPrev}, Torn: int64(cut - ends[whole])}
		if whole > 0 {
			want.Head = heads[whole-1]
		}
		reopen(t, b[:cut], want)
	}
	// A power loss can leave pages of zeros, in the middle of a line too.
	zeros := make([]byte, 4096)
	reopen(t, append(append([]byte(nil), b...), zeros...), Recovered{heads[2], 4096})
	holed := append([]byte(nil), b...)
	clear(holed[ends[1]+5 : ends[2]-5])
	reopen(t, holed[:ends[2]], Recovered{heads[0], int64(ends[2] - ends[1])})
}

func reopen(t *testing.T, b []byte, want Recovered) {
	t.Helper()
	dir := sessionDir(t)
	path := filepath.Join(dir, Name)
	must(t, os.WriteFile(path, b, 0o600))
	j, found := mustOpen(t, dir)
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("%d bytes: %s", len(b), diff)
	}
	_, err := j.Append(intent("after"), true)
	must(t, err)
	must(t, j.Close())
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	if last, err := Verify(f, want.Head.Hash); err != nil || last.Seq != want.Head.Seq+1 {
		t.Errorf("%d bytes: the journal is broken after reopen: %v, %v", len(b), last, err)
	}
}

// A whole line that is no entry was not made by a crash: nothing is taken
// away and nothing is appended.
func TestOpenRefusesDamage(t *testing.T) {
	for name, b := range map[string][]byte{
		"not an entry": []byte("{}\n"),
		"no line end":  bytes.Repeat([]byte("a"), tailWindow+1),
	} {
		t.Run(name, func(t *testing.T) {
			dir := sessionDir(t)
			must(t, os.WriteFile(filepath.Join(dir, Name), b, 0o600))
			_, _, err := Open(dir)
			if contract.CodeOf(err) != contract.SchemaInvalid {
				t.Errorf("got %v", err)
			}
			after, err := os.ReadFile(filepath.Join(dir, Name))
			if err != nil || !bytes.Equal(after, b) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func TestConcurrentAppends(t *testing.T) {
	dir := sessionDir(t)
	j, _ := mustOpen(t, dir)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for range 50 {
				if _, err := j.Append(intent("c"), worker%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	head := j.Head()
	must(t, j.Close())
	if head.Seq != 400 {
		t.Errorf("%d lines", head.Seq)
	}
	checkFile(t, dir, head)
}

// A line that nobody waits for is synced soon by itself.
func TestUnsyncedLineIsSyncedSoon(t *testing.T) {
	j, _ := mustOpen(t, sessionDir(t))
	head, err := j.Append(intent("a"), false)
	must(t, err)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		j.syncMu.Lock()
		synced := j.synced
		j.syncMu.Unlock()
		if synced == head.Seq {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("not synced")
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	dir := sessionDir(t)
	j, _ := mustOpen(t, dir)
	before := j.Head()
	large := intent("a")
	large.Intent.Program = strings.Repeat("a", maxLine)
	for _, e := range []contract.AuditEntry{{}, {Session: "s1", Kind: contract.KindIntent}, large} {
		if _, err := j.Append(e, true); err == nil {
			t.Errorf("accepted %v", e.Kind)
		}
	}
	if j.Head() != before {
		t.Error("a refused entry moved the head")
	}
	must(t, j.Close())
	must(t, j.Close())
	if _, err := j.Append(intent("a"), false); err == nil {
		t.Error("accepted after close")
	}
}

// A full disk takes no part of a line, and the journal goes on when there is
// room again.
func TestAppendOnFullDisk(t *testing.T) {
	dir := sessionDir(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=0700"); err != nil {
		t.Skipf("needs a file system to fill: %v", err)
	}
	defer func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	filler := filepath.Join(dir, "filler")
	must(t, os.WriteFile(filler, make([]byte, 32<<10), 0o600))
	j, _ := mustOpen(t, dir)
	var err error
	for range 1000 {
		if _, err = j.Append(intent("a"), false); err != nil {
			break
		}
	}
	if contract.CodeOf(err) != contract.LimitExceeded {
		t.Fatalf("got %v, want LIMIT_EXCEEDED", err)
	}
	full := j.Head()
	must(t, os.Remove(filler))
	head, err := j.Append(intent("b"), true)
	must(t, err)
	if head.Seq != full.Seq+1 {
		t.Errorf("line %d follows line %d", head.Seq, full.Seq)
	}
	must(t, j.Close())
	checkFile(t, dir, head)
}

// A journal that cannot be repaired or synced takes nothing more: what it said
// is on disk must be so.
func TestAppendAfterFailureIsRefused(t *testing.T) {
	for name, path := range map[string]string{"write and repair": "/dev/full", "sync": "/dev/zero"} {
		t.Run(name, func(t *testing.T) {
			dir := sessionDir(t)
			j, _ := mustOpen(t, dir)
			head, err := j.Append(intent("a"), true)
			must(t, err)
			broken, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			defer broken.Close()
			good := j.file
			j.file = broken
			if _, err := j.Append(intent("b"), true); err == nil {
				t.Fatal("accepted")
			}
			j.file = good
			if _, err := j.Append(intent("c"), true); err == nil {
				t.Error("the journal goes on")
			}
			checkFile(t, dir, head)
		})
	}
}

func checkFile(t *testing.T, dir string, want Head) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, Name))
	must(t, err)
	defer f.Close()
	if last, err := Verify(f, want.Hash); err != nil || last != want {
		t.Errorf("got %v, %v, want %v", last, err, want)
	}
}

func TestOpenRefusesFiles(t *testing.T) {
	tests := map[string]func(t *testing.T, path string){
		"link":      func(t *testing.T, path string) { must(t, os.Symlink("/dev/null", path)) },
		"directory": func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
		"wide mode": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Chmod(path, 0o640))
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			dir := sessionDir(t)
			prepare(t, filepath.Join(dir, Name))
			if _, _, err := Open(dir); contract.CodeOf(err) != contract.PathRefused {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got %v", err)
	}
}
