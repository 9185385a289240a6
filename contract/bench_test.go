package contract

import (
	"strings"
	"testing"
)

func BenchmarkDecodeExec(b *testing.B) {
	data := []byte(`{"exec":{"argv":["go","test","./..."],"cwd":"sub","env":{"CI":"1"},"timeoutMs":60000}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[ToolCall](data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeCallFrame(b *testing.B) {
	data := []byte(`{"seq":7,"type":"call","call":{"callId":"c1","call":{"exec":{"argv":["true"]}}}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode[Frame](data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeExecResult(b *testing.B) {
	zero := 0
	out := Output{Head: "ok\n", Encoding: UTF8, Bytes: 3}
	r := ToolResult{CallID: "c1", Exec: &ExecResult{Outcome: Exited, ExitCode: &zero, Stdout: out, Stderr: Output{Encoding: UTF8}, DurationMs: 3}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Encode(r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeWriteMiB(b *testing.B) {
	data := []byte(`{"write":{"path":"a","content":"` + strings.Repeat("0123456789abcde\\n", 1<<16) + `"}}`)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Decode[ToolCall](data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefuseMillionKeys is the cost of the largest body of unknown keys.
func BenchmarkRefuseMillionKeys(b *testing.B) {
	data := []byte(generator{Gen: "keys", Count: 1000000, Prefix: `{"write":{"path":"a","content":""`, Suffix: `}}`}.document())
	for b.Loop() {
		if _, err := Decode[ToolCall](data); err == nil {
			b.Fatal("accepted")
		}
	}
}

// BenchmarkCompile is what the first document of a process pays.
func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		compile("tool-call")
	}
}
