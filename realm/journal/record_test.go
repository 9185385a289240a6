package journal

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
)

func testRecord(state contract.State) contract.SessionRecord {
	return contract.SessionRecord{
		RealmID: "local", SessionID: "s1", WorkspaceRoot: "/w", State: state,
		ControlSocketPath: "/run/realm/local/s1.sock",
	}
}

func TestRecordAndDetailRoundTrip(t *testing.T) {
	dir := sessionDir(t)
	for _, state := range contract.States() {
		must(t, WriteRecord(dir, testRecord(state)))
		got, err := ReadRecord(dir)
		must(t, err)
		if diff := cmp.Diff(testRecord(state), got); diff != "" {
			t.Error(diff)
		}
	}
	detail := contract.SessionDetail{
		Record: testRecord(contract.Ready), CreatedAt: time.Now().UTC().Round(0), Mode: contract.ReadOnly,
		Git: contract.GitRead, Image: contract.ImageInfo{Ref: "host"}, Egress: "none",
		PolicyDigest: "sha256:" + contract.FirstPrev,
	}
	must(t, WriteDetail(dir, detail))
	got, err := ReadDetail(dir)
	must(t, err)
	if diff := cmp.Diff(detail.Record, got.Record); diff != "" || !got.CreatedAt.Equal(detail.CreatedAt) {
		t.Errorf("created %v: %s", got.CreatedAt, diff)
	}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		info, err := e.Info()
		must(t, err)
		if info.Mode() != 0o600 {
			t.Errorf("%s: mode %v", e.Name(), info.Mode())
		}
	}
	if len(entries) != 2 {
		t.Errorf("%d files, want 2", len(entries))
	}
}

// SESS-01, SESS-03: what is not a record of ours is refused, by name.
func TestReadRecordRefuses(t *testing.T) {
	const valid = `{"realmId":"local","sessionId":"s1","workspaceRoot":"/w","state":"ready","controlSocketPath":"/s.sock"`
	content := map[string]struct {
		text string
		want contract.Code
	}{
		"valid without container": {valid + `}`, ""},
		"valid with null":         {valid + `,"containerId":null}`, ""},
		"empty":                   {"", contract.SchemaInvalid},
		"torn":                    {valid, contract.SchemaInvalid},
		"two":                     {valid + `}` + valid + `}`, contract.SchemaInvalid},
		"zeros":                   {strings.Repeat("\x00", 4096), contract.SchemaInvalid},
		"unknown version":         {valid + `,"schemaVersion":2}`, contract.SchemaInvalid},
		"token":                   {valid + `,"token":"x"}`, contract.SchemaInvalid},
		"env":                     {valid + `,"env":{}}`, contract.SchemaInvalid},
		"wrong state":             {strings.Replace(valid, "ready", "paused", 1) + `}`, contract.SchemaInvalid},
		"path as id":              {strings.Replace(valid, `"s1"`, `"../s1"`, 1) + `}`, contract.SchemaInvalid},
		"too large":               {valid + `}` + strings.Repeat(" ", contract.MaxRecordBytes), contract.LimitExceeded},
	}
	for name, tt := range content {
		t.Run(name, func(t *testing.T) {
			dir := sessionDir(t)
			must(t, os.WriteFile(filepath.Join(dir, RecordName), []byte(tt.text), 0o600))
			checkRead(t, dir, tt.want)
		})
	}
	files := map[string]struct {
		make func(t *testing.T, path string)
		want contract.Code
	}{
		"missing":   {func(*testing.T, string) {}, contract.SessionNotFound},
		"link":      {func(t *testing.T, path string) { move(t, path); must(t, os.Symlink(path+".real", path)) }, contract.PathRefused},
		"hard link": {func(t *testing.T, path string) { move(t, path); must(t, os.Link(path+".real", path)) }, contract.PathRefused},
		"fifo":      {func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, contract.PathRefused},
		"directory": {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, contract.PathRefused},
		"wide mode": {func(t *testing.T, path string) {
			must(t, WriteRecord(filepath.Dir(path), testRecord(contract.Ready)))
			must(t, os.Chmod(path, 0o644))
		}, contract.PathRefused},
		"wide directory": {func(t *testing.T, path string) {
			must(t, WriteRecord(filepath.Dir(path), testRecord(contract.Ready)))
			must(t, os.Chmod(filepath.Dir(path), 0o755))
		}, contract.PathRefused},
		"another user": {func(t *testing.T, path string) {
			if os.Geteuid() != 0 {
				t.Skip("needs root to make a file of another user")
			}
			must(t, WriteRecord(filepath.Dir(path), testRecord(contract.Ready)))
			must(t, os.Chown(path, 65534, 65534))
		}, contract.PathRefused},
	}
	for name, tt := range files {
		t.Run(name, func(t *testing.T) {
			dir := sessionDir(t)
			tt.make(t, filepath.Join(dir, RecordName))
			checkRead(t, dir, tt.want)
		})
	}
	t.Run("directory link", func(t *testing.T) {
		dir := sessionDir(t)
		must(t, WriteRecord(dir, testRecord(contract.Ready)))
		must(t, os.Symlink(dir, dir+".link"))
		checkRead(t, dir+".link", contract.PathRefused)
	})
}

func move(t *testing.T, path string) {
	must(t, WriteRecord(filepath.Dir(path), testRecord(contract.Ready)))
	must(t, os.Rename(path, path+".real"))
}

func checkRead(t *testing.T, dir string, want contract.Code) {
	t.Helper()
	_, err := ReadRecord(dir)
	if got := contract.CodeOf(err); got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	if err != nil && !strings.Contains(err.Error(), RecordName) && !strings.Contains(err.Error(), "directory") {
		t.Errorf("the error does not say which file: %v", err)
	}
}

// A reader sees the old record or the new one, whole, while it is replaced; the
// rest of a crash in the middle is taken away by the next write.
func TestReplaceIsAtomic(t *testing.T) {
	dir := sessionDir(t)
	must(t, os.WriteFile(filepath.Join(dir, RecordName+".new"), []byte("{"), 0o600))
	must(t, WriteRecord(dir, testRecord(contract.Pending)))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := ReadRecord(dir); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 60 {
		must(t, WriteRecord(dir, testRecord(contract.States()[i%6])))
	}
	close(stop)
	wg.Wait()
	if _, err := os.Lstat(filepath.Join(dir, RecordName+".new")); err == nil {
		t.Error("the temporary file is left")
	}
}

// A link in the place of the temporary file is not written through.
func TestReplaceDoesNotFollowLinks(t *testing.T) {
	dir := sessionDir(t)
	victim := filepath.Join(t.TempDir(), "victim")
	must(t, os.WriteFile(victim, []byte("precious"), 0o600))
	must(t, os.Symlink(victim, filepath.Join(dir, RecordName+".new")))
	must(t, WriteRecord(dir, testRecord(contract.Ready)))
	if b, err := os.ReadFile(victim); err != nil || string(b) != "precious" {
		t.Errorf("got %q, %v", b, err)
	}
}
