package realm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func spillTo(t *testing.T) func() (*os.File, error) {
	dir := t.TempDir()
	return func() (*os.File, error) { return os.CreateTemp(dir, "spill-*") }
}

// Every way to cut the same bytes into writes must give the same result.
func TestCaptureKeepsHeadTailAndWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 63, 64, 65, 96, 127, 128, 129, 1000, 100_000} {
		whole := bytes.Repeat([]byte("0123456789abcdef\n"), size/17+1)[:size]
		for range 20 {
			var seen int64
			c := newCapture("stdout", 64, spillTo(t), func(stream string, off int64, p []byte) {
				if stream != "stdout" || off != seen || !bytes.Equal(p, whole[off:off+int64(len(p))]) {
					t.Fatalf("sink got %d bytes at %d, want the bytes at %d", len(p), off, seen)
				}
				seen += int64(len(p))
			})
			for rest := whole; len(rest) > 0; {
				n := min(1+rng.IntN(200), len(rest))
				c.write(rest[:n])
				rest = rest[n:]
			}
			out := c.result()
			if out.Bytes != int64(size) || seen != int64(size) {
				t.Fatalf("size %d: counted %d, sink saw %d", size, out.Bytes, seen)
			}
			if size <= 64 {
				if out.Head != string(whole) || out.Tail != "" || out.Truncated || out.Spill != "" {
					t.Fatalf("size %d: small output not kept whole: %+v", size, out)
				}
				continue
			}
			if !strings.HasPrefix(string(whole), out.Head) || !strings.HasSuffix(string(whole), out.Tail) ||
				len(out.Head) != 32 || len(out.Tail) != 32 || !out.Truncated {
				t.Fatalf("size %d: head %q tail %q truncated %v", size, out.Head, out.Tail, out.Truncated)
			}
			got, err := os.ReadFile(out.Spill)
			sum := sha256.Sum256(whole)
			if err != nil || !bytes.Equal(got, whole) || out.SHA256 != hex.EncodeToString(sum[:]) {
				t.Fatalf("size %d: spill file differs (%v)", size, err)
			}
		}
	}
}

func TestCaptureEncodesWhatIsNotText(t *testing.T) {
	c := newCapture("stdout", 64, spillTo(t), nil)
	c.write([]byte{0xff, 0xfe, 0})
	if out := c.result(); out.Encoding != "base64" || out.Head != base64.StdEncoding.EncodeToString([]byte{0xff, 0xfe, 0}) {
		t.Errorf("binary: %+v", out)
	}
	// The cut between head and tail splits a rune on both sides; the text stays text.
	c = newCapture("stdout", 6, spillTo(t), nil)
	c.write([]byte(strings.Repeat("é", 40)))
	if out := c.result(); out.Encoding != "utf8" || out.Head != "é" || out.Tail != "é" {
		t.Errorf("split rune: %+v", out)
	}
}

func TestCaptureSaysWhenTheWholeIsLost(t *testing.T) {
	c := newCapture("stdout", 8, func() (*os.File, error) {
		return nil, errors.New("disk full")
	}, nil)
	c.write(bytes.Repeat([]byte("x"), 100))
	c.write([]byte("end"))
	out := c.result()
	if !out.Truncated || out.Spill != "" || out.SHA256 != "" || !strings.HasSuffix(out.Tail, "end") || out.Bytes != 103 {
		t.Errorf("got %+v", out)
	}
}

func TestCaptureKeepsDrainingAfterTheResult(t *testing.T) {
	c := newCapture("stdout", 8, spillTo(t), nil)
	c.write([]byte("a"))
	if out := c.result(); out.Head != "a" {
		t.Fatalf("head %q", out.Head)
	}
	done := make(chan struct{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { c.drain(r); close(done) }()
	if _, err := w.Write(bytes.Repeat([]byte("y"), 1<<20)); err != nil {
		t.Errorf("the writer was cut off: %v", err)
	}
	_ = w.Close()
	<-done
	if matches, _ := filepath.Glob(filepath.Join(t.TempDir(), "*")); len(matches) != 0 {
		t.Errorf("spilled after the result: %v", matches)
	}
}
