package workspace

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

var ops = map[string]policy.Op{"read": policy.OpRead, "write": policy.OpWrite, "list": policy.OpList, "cwd": policy.OpExec}

// TestResolveCorpus runs the path corpus. What its schema accepts has to be
// decided here; what the schema refuses must not get by here either.
func TestResolveCorpus(t *testing.T) {
	type testCase struct {
		ID, Path, Op, Schema, Final, Why string
		FS                               map[string]string
	}
	for _, c := range readJSON[[]testCase](t, "testdata/paths.json") {
		t.Run(c.ID, func(t *testing.T) {
			base := tempDir(t)
			root := filepath.Join(base, "ws")
			write(t, filepath.Join(base, "OUT", "secret"), "outside")
			build(t, root, c.FS)
			if err := os.MkdirAll(root, 0o755); err != nil {
				t.Fatal(err)
			}
			r, err := openTree(t, root, writable).Resolve(ops[c.Op], c.Path)
			if err == nil {
				defer r.Close()
			}
			if c.Schema == "reject" {
				// A drive letter and a backslash are names to the kernel; the rest must be refused here too.
				if err == nil && !strings.ContainsAny(c.Path, `:\`) {
					t.Fatalf("%q: resolved to %q", c.Path, r.Name)
				}
				return
			}
			if c.Final == "reject" {
				if code := contract.CodeOf(err); code != contract.PathRefused {
					t.Fatalf("%s: got %v, want PATH_REFUSED", c.Why, err)
				}
				if strings.Contains(err.Error(), "outside") || strings.Contains(err.Error(), base) {
					t.Fatalf("the error tells too much: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("%s: %v", c.Why, err)
			}
			if want := path.Clean(c.Path); r.Name != want {
				t.Errorf("resolved to %q, want %q", r.Name, want)
			}
		})
	}
}

func TestResolveRules(t *testing.T) {
	root := tempDir(t)
	build(t, root, map[string]string{
		"a.txt": "a", "src/main.go": "package main", "in": "@symlink:./src/main.go", "dir": "@symlink:./src",
		"chain": "@symlink:./in", "up": "@symlink:./src/..", "h": "@symlink:./.git/hooks", "dangling": "@symlink:./new.txt",
		".git/hooks/x": "#!/bin/sh", ".git/HEAD": "ref: refs/heads/main", ".git/objects/x": "", ".git/refs/x": "",
		".env": "SECRET=1", "envlink": "@symlink:./.env", "secrets/key.pem": "key", ".env.example": "x", ".husky/pre": "x",
		".npmrc": "//registry/:_authToken=abc", "sub/.npmrc": "color=true", "npm": "@symlink:./.npmrc", "loop": "@symlink:./loop",
		"abs": "@symlink:/etc/passwd", "src/deep/up": "@symlink:./../../a.txt",
	})
	doc := `{"mode":"workspace-write","hide":["secrets/*.pem"],"protect":["go.sum"]}`
	tests := []struct {
		op, path string
		name     string // "" when refused
		code     contract.Code
		rule     string
	}{
		{"read", "a.txt", "a.txt", "", ""},
		{"read", "in", "src/main.go", "", ""},
		{"read", "chain", "src/main.go", "", ""},
		{"read", "dir/main.go", "src/main.go", "", ""},
		{"read", "src/deep/up", "a.txt", "", ""},
		{"read", "up/a.txt", "a.txt", "", ""},
		{"list", "up", ".", "", ""},
		{"list", "", ".", "", ""},
		{"cwd", "src/", "src", "", ""},
		{"write", "dangling", "new.txt", "", ""},
		{"write", "src/new.go", "src/new.go", "", ""},
		{"write", "x/y/z", "x/y/z", "", ""},
		{"write", "dir/n/z", "src/n/z", "", ""},
		{"read", ".git/hooks/x", ".git/hooks/x", "", ""},
		{"write", "h/pre-commit", "", contract.PathRefused, "git:read"},
		{"write", ".git/hooks/x", "", contract.PathRefused, "git:read"},
		{"write", ".GIT/hooks/x", "", contract.PathRefused, "git:read"},
		{"write", ".husky/pre", "", contract.PathRefused, "protect:.husky"},
		{"write", ".HUSKY/new", "", contract.PathRefused, "protect:.husky"},
		{"write", "go.sum", "", contract.PathRefused, "/protect/0"},
		{"read", "go.sum", "", contract.PathNotFound, ""},
		{"read", ".env", "", contract.PathRefused, "hide:**/.env"},
		{"read", "envlink", "", contract.PathRefused, "hide:**/.env"},
		{"write", "envlink", "", contract.PathRefused, "hide:**/.env"},
		{"read", ".env.example", ".env.example", "", ""},
		{"read", "secrets/key.pem", "", contract.PathRefused, "/hide/0"},
		{"read", ".npmrc", "", contract.PathRefused, "hide:**/.npmrc"},
		{"read", "npm", "", contract.PathRefused, "hide:**/.npmrc"},
		{"read", "sub/.npmrc", "sub/.npmrc", "", ""},
		{"read", "abs", "", contract.PathRefused, ruleEscapes},
		{"read", "loop", "", contract.PathRefused, ruleLinks},
		{"read", "none", "", contract.PathNotFound, ""},
		{"read", "a.txt/x", "", contract.PathNotFound, ""},
		{"write", "a.txt/x", "", contract.PathRefused, ruleNotDir},
		{"write", "new/", "", contract.PathNotFound, ""},
		{"write", "a.txt/", "", contract.PathRefused, ruleNotDir},
		{"cwd", "a.txt", "", contract.PathRefused, ruleNotDir},
		{"read", "src", "", contract.PathRefused, ruleNotRegular},
	}
	tree := openTree(t, root, doc)
	for _, c := range tests {
		t.Run(c.op+" "+c.path, func(t *testing.T) {
			r, err := tree.Resolve(ops[c.op], c.path)
			if c.name == "" {
				wantCode(t, err, c.code)
				if !strings.Contains(err.Error(), c.rule) {
					t.Fatalf("%v does not name %s", err, c.rule)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if r.Name != c.name {
				t.Fatalf("resolved to %q, want %q", r.Name, c.name)
			}
		})
	}
}

func TestResolveRefusesWritesInReadOnlyMode(t *testing.T) {
	root := tempDir(t)
	build(t, root, map[string]string{"a": "a"})
	_, err := openTree(t, root, readOnly).Resolve(policy.OpWrite, "a")
	wantCode(t, err, contract.PathRefused)
}

// TestResolveKnowsFilesUnderOtherNames: a name that was hidden or protected when the
// session began stays so after a rename on the host.
func TestResolveKnowsFilesUnderOtherNames(t *testing.T) {
	root := tempDir(t)
	build(t, root, map[string]string{"secrets/key.pem": "key", ".husky/pre": "x", "plain/.env": "S=1"})
	tree := openTree(t, root, `{"mode":"workspace-write","hide":["secrets/*.pem"]}`)
	p, err := tree.Plan(t.Context(), "s-1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	for from, to := range map[string]string{"secrets": "s2", ".husky": "h2", "plain/.env": "plain/env"} {
		if err := os.Rename(filepath.Join(root, from), filepath.Join(root, to)); err != nil {
			t.Fatal(err)
		}
	}
	for name, op := range map[string]policy.Op{"s2/key.pem": policy.OpRead, "plain/env": policy.OpRead, "h2/pre": policy.OpWrite, "h2/new": policy.OpWrite} {
		_, err := tree.Resolve(op, name)
		if contract.CodeOf(err) != contract.PathRefused {
			t.Errorf("%s: got %v, want PATH_REFUSED", name, err)
		}
	}
	if r, err := tree.Resolve(policy.OpRead, "h2/pre"); err != nil {
		t.Errorf("a protected file may be read: %v", err)
	} else {
		r.Close()
	}
}

// TestResolveInodeReuse: a new file that got the inode number of a hidden one is not hidden.
func TestResolveInodeReuse(t *testing.T) {
	root := tempDir(t)
	build(t, root, map[string]string{"a": "a"})
	tree := openTree(t, root, writable)
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(root, "a"), &st); err != nil {
		t.Fatal(err)
	}
	for b, want := range map[int64]contract.Code{birth(tree.dir, "a"): contract.PathRefused, 12345: ""} {
		if b == 0 {
			t.Skip("this file system does not tell when an inode was made")
		}
		tree.guard([]Guarded{{ID: idOf(&st), Birth: b, Rule: "hide", Hidden: true}})
		r, err := tree.Resolve(policy.OpRead, "a")
		if err == nil {
			r.Close()
		}
		if got := contract.CodeOf(err); got != want {
			t.Errorf("birth %d: got %q, want %q", b, got, want)
		}
	}
}

// TestResolveRace exchanges a directory, a link out of the tree, a FIFO and files with
// renameat2 as fast as it goes while the same names are resolved. Whatever is opened must be of the tree.
func TestResolveRace(t *testing.T) {
	base := tempDir(t)
	root := filepath.Join(base, "ws")
	write(t, filepath.Join(base, "OUT", "x"), "outside")
	build(t, root, map[string]string{
		"d/x": "inside", "e": "@symlink:/OUT", "f": "inside", "g": "@symlink:/OUT/x", "p": "@fifo",
		"dir/x": "inside", "deep/er/x": "inside",
	})
	tree := openTree(t, root, writable)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, pair := range [][2]string{{"d", "e"}, {"f", "g"}, {"f", "p"}, {"dir", "deep"}} {
		wg.Go(func() {
			a, b := filepath.Join(root, pair[0]), filepath.Join(root, pair[1])
			for ctx.Err() == nil {
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		})
	}
	wg.Go(func() { // RACE-04: a directory leaves the tree and comes back
		in, out := filepath.Join(root, "deep", "er"), filepath.Join(base, "gone")
		for ctx.Err() == nil {
			_ = os.Rename(in, out)
			_ = os.Rename(out, in)
		}
	})
	var opened, refused atomic.Int64
	for _, name := range []string{"d/x", "e/x", "f", "g", "p", "dir/x", "deep/er/x"} {
		wg.Go(func() {
			for ctx.Err() == nil {
				raceOnce(t, tree, base, name, &opened, &refused)
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(filepath.Join(base, "OUT", "new")); err == nil {
		t.Error("a file was made outside")
	}
	if opened.Load() == 0 || refused.Load() == 0 {
		t.Errorf("opened %d, refused %d: the race never happened", opened.Load(), refused.Load())
	}
	t.Logf("opened %d, refused %d", opened.Load(), refused.Load())
}

func raceOnce(t *testing.T, tree *Tree, base, name string, opened, refused *atomic.Int64) {
	for _, op := range []policy.Op{policy.OpRead, policy.OpWrite} {
		r, err := tree.Resolve(op, name)
		if err != nil {
			refused.Add(1)
			continue
		}
		opened.Add(1)
		if r.File != nil {
			if data, err := io.ReadAll(r.File); err == nil && string(data) == "outside" {
				t.Errorf("%s: read a file outside", name)
			}
		}
		if dir, err := realName(r.Dir); err == nil && strings.HasPrefix(dir, base+"/OUT") {
			t.Errorf("%s: the directory is outside", name)
		}
		r.Close()
	}
}

func FuzzResolve(f *testing.F) {
	root := tempDir(f)
	for name, content := range map[string]string{"a/b": "x", "a/l": "", "c": "y"} {
		write(f, filepath.Join(root, name), content)
	}
	for name, target := range map[string]string{"l1": "a", "l2": "a/../..", "a/l3": "../c", "out": "/etc", "l4": "../../../../etc"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			f.Fatal(err)
		}
	}
	for _, s := range []string{"a/b", "l1/b", "l2/x", "out/passwd", "a/l3", "a//b/", "./a/.", "l4/passwd", "..", "a\x00b"} {
		f.Add(uint8(0), s)
		f.Add(uint8(1), s)
	}
	tree, err := Open(root, Options{StateDir: tempDir(f), Policy: compile(f, writable)})
	if err != nil {
		f.Fatal(err)
	}
	defer tree.Close()
	f.Fuzz(func(t *testing.T, op uint8, name string) {
		r, err := tree.Resolve(policy.Op(op%4), name)
		if err != nil {
			if c := contract.CodeOf(err); c != contract.PathRefused && c != contract.PathNotFound {
				t.Fatalf("%q: %v", name, err)
			}
			return
		}
		defer r.Close()
		dir, err := realName(r.Dir)
		if err != nil || !contains(root, dir) {
			t.Fatalf("%q: opened %q", name, dir)
		}
	})
}
