package cli

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestCtrlC(t *testing.T) {
	type step struct {
		at     time.Duration
		key    bool
		output string
		ends   bool
	}
	ms := time.Millisecond
	for _, tt := range []struct {
		name  string
		steps []step
	}{
		{"first-is-the-commands", []step{{at: 0, key: true}}},
		{"second-without-reaction", []step{{at: 0, key: true}, {at: 600 * ms, key: true, ends: true}}},
		{"echo-is-no-reaction", []step{{at: 0, key: true}, {at: 1 * ms, output: "^C"}, {at: 600 * ms, key: true, ends: true}}},
		{"echo-and-line", []step{{at: 0, key: true}, {at: 1 * ms, output: "^C"}, {at: 2 * ms, output: "\r\n"}, {at: 600 * ms, key: true, ends: true}}},
		{"prompt-is-a-reaction", []step{{at: 0, key: true}, {at: 1 * ms, output: "^C\r\n$ "}, {at: 600 * ms, key: true}, {at: 601 * ms, output: "^C\r\n$ "}, {at: 1300 * ms, key: true}}},
		{"quick-double-press", []step{{at: 0, key: true}, {at: 150 * ms, key: true}}},
		{"third-after-a-double-press", []step{{at: 0, key: true}, {at: 150 * ms, key: true}, {at: 700 * ms, key: true, ends: true}}},
		{"burst-beats-output", []step{
			{at: 0, key: true},
			{at: 100 * ms, output: "y\ny\n"},
			{at: 300 * ms, key: true},
			{at: 400 * ms, output: "y\n"},
			{at: 600 * ms, key: true},
			{at: 700 * ms, output: "y\n"},
			{at: 900 * ms, key: true},
			{at: 1000 * ms, output: "y\n"},
			{at: 1200 * ms, key: true, ends: true},
		}},
		{"ends-once", []step{{at: 0, key: true}, {at: 600 * ms, key: true, ends: true}, {at: 1200 * ms, key: true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			var k keys
			for i, s := range tt.steps {
				k.printed([]byte(s.output))
				if s.key && k.pressed(begin.Add(s.at)) != s.ends {
					t.Errorf("step %d: ends = %t", i, !s.ends)
				}
			}
		})
	}
}

func TestKeysPassEverythingOn(t *testing.T) {
	ends := 0
	clock := time.Now()
	k := &keys{now: func() time.Time { clock = clock.Add(time.Second); return clock }, end: func() { ends++ }}
	in, err := io.ReadAll(k.reader(strings.NewReader("a\x03b\x03c\x03")))
	if err != nil || string(in) != "a\x03b\x03c\x03" {
		t.Errorf("read %q, %v", in, err)
	}
	if ends != 1 {
		t.Errorf("ended %d times, want once", ends)
	}
	var out strings.Builder
	if _, err := k.writer(&out).Write([]byte("text")); err != nil || out.String() != "text" {
		t.Errorf("wrote %q, %v", out.String(), err)
	}
}
