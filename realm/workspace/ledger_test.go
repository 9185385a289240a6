package workspace

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newPlan(t testing.TB, root, state, session, doc string) *Plan {
	t.Helper()
	tree, err := Open(root, Options{StateDir: state, Policy: compile(t, doc)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	p, err := tree.Plan(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func noSession(string) bool { return false }

func TestPlaceholdersAreShared(t *testing.T) {
	root, state := tempDir(t), tempDir(t)
	build(t, root, map[string]string{"a": "a"})
	before := listing(t, root)
	first := newPlan(t, root, state, "s-1", writable)
	second := newPlan(t, root, state, "s-2", writable)
	if len(first.Mounts) != len(second.Mounts) {
		t.Errorf("%d and %d mounts", len(first.Mounts), len(second.Mounts))
	}
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/.claude"); err != nil {
		t.Errorf("the second session lost its placeholder: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, listing(t, root)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

// TestPlaceholdersThatWereUsed: what somebody put to use stays.
func TestPlaceholdersThatWereUsed(t *testing.T) {
	root, state := tempDir(t), tempDir(t)
	build(t, root, map[string]string{".git/HEAD": "x", ".git/info/exclude": ""})
	p := newPlan(t, root, state, "s-1", gitWrite)
	write(t, root+"/.claude/settings.json", "{}")                  // used
	remove(t, root+"/.envrc")                                      // replaced by a file
	write(t, root+"/.envrc", "use nix")                            //
	write(t, root+"/.git/config.worktree", "[core]\n")             // written to
	rename(t, root+"/.git/commondir", root+"/.git/c2")             // replaced, same content
	write(t, root+"/.git/commondir", ".")                          //
	remove(t, root+"/.git/c2")                                     //
	if err := os.Remove(root + "/.github/workflows"); err != nil { // removed
		t.Fatal(err)
	}
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for name := range listing(t, root) {
		got = append(got, name)
	}
	slices.Sort(got)
	want := []string{".", ".claude", ".claude/settings.json", ".envrc", ".git", ".git/HEAD", ".git/commondir", ".git/config.worktree", ".git/info", ".git/info/exclude"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSweepAfterKill stops at every step of a plan that changes the disk, as kill -9 would, and sweeps.
func TestSweepAfterKill(t *testing.T) {
	for _, doc := range []string{writable, gitWrite} {
		root, state := tempDir(t), tempDir(t)
		build(t, root, map[string]string{".git/HEAD": "x", "a": "a"})
		before := listing(t, root)
		want := []placeholder{{path: ".x", isDir: true}, {path: ".y", isDir: true}, {path: ".y/z", isDir: true}, {path: ".git/commondir", content: "."}}
		dir, err := os.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		owner := [2]int{os.Geteuid(), os.Getegid()}
		for made := 0; made <= len(want); made++ {
			for _, recorded := range []bool{false, true} {
				l, err := openLedger(t.Context(), state, root)
				if err != nil {
					t.Fatal(err)
				}
				st, err := fstat(dir)
				if err != nil {
					t.Fatal(err)
				}
				l.Dir = idOf(st)
				for _, w := range want {
					l.Items = append(l.Items, ledged{Path: w.path, IsDir: w.isDir, Content: w.content, Since: time.Now(), Sessions: []string{"s-1"}})
				}
				if err := l.save(); err != nil {
					t.Fatal(err)
				}
				for i := range l.Items[:made] {
					if err := l.Items[i].make(dir, owner); err != nil {
						t.Fatal(err)
					}
				}
				if recorded {
					if err := l.save(); err != nil {
						t.Fatal(err)
					}
				}
				l.close()
				if err := Sweep(state, noSession); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, listing(t, root)); diff != "" {
					t.Errorf("%d made, recorded %v: left behind:\n%s", made, recorded, diff)
				}
			}
		}
		newPlan(t, root, state, "s-1", doc) // never released
		if err := Sweep(state, func(s string) bool { return s == "s-1" }); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(root + "/.claude"); err != nil {
			t.Errorf("sweep took a live session's placeholder: %v", err)
		}
		if err := Sweep(state, noSession); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, listing(t, root)); diff != "" {
			t.Errorf("left behind:\n%s", diff)
		}
		if names, _ := filepath.Glob(state + "/workspaces/*.json*"); len(names) > 0 {
			t.Errorf("ledgers left: %v", names)
		}
	}
}

// TestSweepAfterKillInRemove: killed between the move aside and the unlink.
func TestSweepAfterKillInRemove(t *testing.T) {
	root, state := tempDir(t), tempDir(t)
	build(t, root, map[string]string{".git/HEAD": "x"})
	before := listing(t, root)
	p := newPlan(t, root, state, "s-1", gitWrite)
	l, err := openLedger(t.Context(), state, root)
	if err != nil {
		t.Fatal(err)
	}
	it := l.find(".git/commondir")
	rename(t, root+"/.git/commondir", root+"/.git/"+it.aside("commondir"))
	l.close()
	if err := p.Release(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, listing(t, root)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

// TestSweepIsCareful: another tree of the same name, a ledger that is none, a tree that is gone.
func TestSweepIsCareful(t *testing.T) {
	base, state := tempDir(t), tempDir(t)
	root := filepath.Join(base, "w")
	build(t, root, map[string]string{"a": "a"})
	newPlan(t, root, state, "s-1", writable)
	rename(t, root, base+"/old")
	build(t, root, map[string]string{".claude": "@dir", ".git": "@dir"})
	if err := Sweep(state, noSession); err != nil {
		t.Fatal(err)
	}
	if got := listing(t, root); len(got) != 3 {
		t.Errorf("sweep touched another tree: %v", got)
	}
	newPlan(t, root, state, "s-2", writable)
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	write(t, state+"/workspaces/0123.json", `{"root":"/etc","items":[{"path":"hostname"}]}`)
	write(t, state+"/workspaces/4567.json", `{torn`)
	if err := Sweep(state, noSession); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(state + "/workspaces/*.json*"); len(names) > 0 {
		t.Errorf("ledgers left: %v", names)
	}
}

// TestLedgerNeverRemovesWhatIsNotOurs feeds ledgers that name what exists anyway.
func TestLedgerNeverRemovesWhatIsNotOurs(t *testing.T) {
	root, state := tempDir(t), tempDir(t)
	build(t, root, map[string]string{"file": "x", "empty": "@dir", "full/a": "a", "link": "@symlink:./empty", "zero": ""})
	before := listing(t, root)
	dir, err := os.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	l, err := openLedger(t.Context(), state, root)
	if err != nil {
		t.Fatal(err)
	}
	st, err := fstat(dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Dir = idOf(st)
	for name := range before {
		for _, isDir := range []bool{true, false} {
			l.Items = append(l.Items, ledged{Path: name, IsDir: isDir, ID: fileID{1, 2}, Since: time.Now()})
			l.Items = append(l.Items, ledged{Path: name, IsDir: isDir, Since: time.Now().Add(time.Hour)})
		}
	}
	for _, name := range []string{"../../etc/x", "/etc/hostname", "full/../full/a", ""} {
		l.Items = append(l.Items, ledged{Path: name, IsDir: false, Since: time.Now().Add(-time.Hour)})
	}
	if err := l.release(dir, noSession); err != nil {
		t.Log(err)
	}
	l.close()
	if diff := cmp.Diff(before, listing(t, root)); diff != "" {
		t.Errorf("something is gone:\n%s", diff)
	}
}

// TestPlansAtOnce: many sessions in one tree, coming and going.
func TestPlansAtOnce(t *testing.T) {
	root, state := tempDir(t), tempDir(t)
	build(t, root, map[string]string{"a": "a"})
	before := listing(t, root)
	var wg sync.WaitGroup
	for i := range 8 {
		session := "s-" + string(rune('a'+i))
		tree, err := Open(root, Options{StateDir: state, Policy: compile(t, writable)})
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		wg.Go(func() {
			for range 5 {
				p, err := tree.Plan(context.Background(), session)
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range p.Mounts {
					if _, err := os.Lstat(m.Source); err != nil {
						t.Errorf("%s: %v", m.Source, err)
					}
				}
				if err := p.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if diff := cmp.Diff(before, listing(t, root)); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

func FuzzLedger(f *testing.F) {
	f.Add([]byte(`{"root":"W","dir":{"dev":0,"ino":0},"items":[{"path":"keep","isDir":false,"id":{"dev":0,"ino":0},"since":"2020-01-01T00:00:00Z"}]}`))
	f.Add([]byte(`{"items":[{"path":"../keep"},{"path":"dir/keep","content":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		base, state := tempDir(t), tempDir(t)
		root := filepath.Join(base, "w")
		build(t, base, map[string]string{"keep": "x", "w/keep": "x", "w/dir/keep": "x"})
		before := listing(t, base)
		var l ledger
		if json.Unmarshal(data, &l) != nil {
			return
		}
		l.Root = root
		for i := range l.Items {
			l.Items[i].Since = time.Now().Add(time.Hour) // older than this, nothing is ours
			l.Items[i].ID.Dev |= 1 << 63
		}
		out, err := json.Marshal(l)
		if err != nil {
			return
		}
		write(t, ledgerPath(state, root), string(out))
		_ = Sweep(state, noSession)
		after := listing(t, base)
		for name, content := range before {
			if after[name] != content {
				t.Fatalf("%s is gone or changed", strings.ToValidUTF8(name, "?"))
			}
		}
	})
}
