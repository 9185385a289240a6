package policy

import (
	"testing"

	"realm.dev/contract"
)

func BenchmarkCompile(b *testing.B) {
	p := contract.DefaultPolicy()
	for b.Loop() {
		if _, err := Compile(p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPathRule(b *testing.B) {
	c := mustCompile(b, `{"mode":"workspace-write","protect":["**/*.lock"],"hide":["secrets/**"]}`)
	for b.Loop() {
		if c.PathRule("internal/server/handlers/session_test.go", OpWrite, FilePlain).Effect != contract.Allow {
			b.Fatal("refused")
		}
	}
}

func BenchmarkShellForm(b *testing.B) {
	argv := []string{"env", "A=1", "timeout", "-k", "5", "9", "git", "status", "--short"}
	for b.Loop() {
		if ShellForm(argv) {
			b.Fatal("a shell")
		}
	}
}
