package control

import (
	"bytes"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// What goes on where the chunk before ends becomes one frame with it.
func TestQueueJoinsChunks(t *testing.T) {
	q := newOutputQueue(time.Minute, nil)
	q.put("stdout", 0, []byte("a\xc3"))
	q.put("stdout", 2, []byte("\xb6"))
	q.put("stderr", 0, []byte("x"))
	q.put("stdout", 3, []byte("b"))
	q.put("stdout", 9, []byte("c")) // something is missing before it
	want := []chunk{
		{"stdout", 0, []byte("aö")},
		{"stderr", 0, []byte("x")},
		{"stdout", 3, []byte("b")},
		{"stdout", 9, []byte("c")},
	}
	if diff := cmp.Diff(want, takeAll(q), cmp.AllowUnexported(chunk{})); diff != "" {
		t.Error(diff)
	}
}

func takeAll(q *outputQueue) []chunk {
	var all []chunk
	for {
		c, ok := q.take()
		if !ok {
			return all
		}
		all = append(all, c)
	}
}

// A chunk does not end within a rune, whatever the sizes.
func TestQueueSplitsBetweenRunes(t *testing.T) {
	for shift := range 4 {
		text := bytes.Repeat([]byte("a"), shift)
		text = append(text, bytes.Repeat([]byte("𝄞"), chunkBytes/2)...) // fits the queue
		q := newOutputQueue(time.Minute, nil)
		q.put("stdout", 0, text)
		var got []byte
		for _, c := range takeAll(q) {
			if len(c.data) > chunkBytes || !utf8.Valid(c.data) || c.offset != int64(len(got)) {
				t.Errorf("shift %d: chunk of %d bytes at %d", shift, len(c.data), c.offset)
			}
			got = append(got, c.data...)
		}
		if !bytes.Equal(got, text) {
			t.Errorf("shift %d: %d bytes, want %d", shift, len(got), len(text))
		}
	}
}

// After a cut nothing is taken, not even when there is room again: a stream
// that says it is cut has no more output.
func TestQueueStaysCut(t *testing.T) {
	q := newOutputQueue(time.Millisecond, nil)
	q.put("stdout", 0, make([]byte, queueBytes))
	q.put("stdout", queueBytes, []byte("a"))
	select {
	case <-q.cut:
	default:
		t.Fatal("not cut")
	}
	total := 0
	for _, c := range takeAll(q) {
		total += len(c.data)
	}
	if total != queueBytes {
		t.Errorf("%d bytes were kept", total)
	}
	q.put("stdout", queueBytes+1, []byte("b"))
	q.put("stderr", 0, []byte("c"))
	if rest := takeAll(q); rest != nil {
		t.Errorf("taken after the cut: %v", rest)
	}
}
