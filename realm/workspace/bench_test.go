package workspace

import (
	"fmt"
	"testing"

	"realm.dev/policy"
)

func BenchmarkPlan(b *testing.B) {
	root := tempDir(b)
	for i := range 200 {
		write(b, fmt.Sprintf("%s/src/p%d/f.go", root, i), "x")
	}
	write(b, root+"/.git/HEAD", "x")
	tree, err := Open(root, Options{StateDir: tempDir(b), Policy: compile(b, writable)})
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	for b.Loop() {
		p, err := tree.Plan(b.Context(), "s-1")
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkResolve(b *testing.B) {
	root := tempDir(b)
	write(b, root+"/a/b/c/file", "x")
	tree, err := Open(root, Options{StateDir: tempDir(b), Policy: compile(b, writable)})
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	for b.Loop() {
		r, err := tree.Resolve(policy.OpRead, "a/b/c/file")
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
