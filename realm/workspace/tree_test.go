package workspace

import (
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/policy"
)

// compiled makes a policy from its document, the rest being the defaults.
func compiled(doc string) (*policy.Compiled, error) {
	p, err := policy.Load([]byte(doc), policy.FormatJSON)
	if err != nil {
		return nil, err
	}
	return policy.Compile(p)
}

func compile(t testing.TB, doc string) *policy.Compiled {
	t.Helper()
	c, err := compiled(doc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const (
	readOnly = `{}`
	writable = `{"mode":"workspace-write"}`
	gitWrite = `{"mode":"workspace-write","git":"write"}`
)

// tempDir is t.TempDir with its real name.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func openTree(t testing.TB, dir, doc string) *Tree {
	t.Helper()
	tree, err := Open(dir, Options{StateDir: tempDir(t), Policy: compile(t, doc)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	return tree
}

func write(t testing.TB, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// build makes a tree from a description: name → content, with the markers of
// testdata/paths.json for what is not a file.
func build(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		if raw, ok := strings.CutPrefix(name, "@rawname:"); ok {
			b, err := hex.DecodeString(strings.ReplaceAll(raw, " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			name = string(b)
		}
		full := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch target, isLink := strings.CutPrefix(content, "@symlink:"); {
		case isLink:
			err = os.Symlink(strings.ReplaceAll(target, "/OUT", filepath.Dir(root)+"/OUT"), full)
			if strings.HasPrefix(target, ".") {
				os.Remove(full)
				err = os.Symlink(target, full)
			}
		case content == "@fifo":
			err = unix.Mkfifo(full, 0o644)
		case content == "@socket":
			var l *net.UnixListener
			if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: full}); err == nil {
				t.Cleanup(func() { l.Close() })
			}
		case content == "@dir":
			err = os.MkdirAll(full, 0o755)
		default:
			err = os.WriteFile(full, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readJSON[T any](t testing.TB, name string) T {
	t.Helper()
	var v T
	data, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func wantCode(t testing.TB, err error, code contract.Code) {
	t.Helper()
	if got := contract.CodeOf(err); got != code {
		t.Fatalf("got %q (%v), want %q", got, err, code)
	}
}
