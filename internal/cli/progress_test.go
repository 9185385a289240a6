package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"realm.dev/container"
)

const megabyte = 1000 * 1000

func TestProgressWaitsBeforeItSpeaks(t *testing.T) {
	for _, tt := range []struct {
		name string
		took time.Duration
		want []string
	}{
		{"quick", 250 * time.Millisecond, nil},
		{"slow", time.Second, []string{"realm: starting the session", "\r\x1b[K"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := &progress{w: &out, tty: true, now: time.Now}
				p.step("starting the session")
				time.Sleep(tt.took)
				p.done()
				for _, want := range tt.want {
					if !strings.Contains(out.String(), want) {
						t.Errorf("%q is missing from %q", want, out.String())
					}
				}
				if len(tt.want) == 0 && out.Len() > 0 {
					t.Errorf("said %q", out.String())
				}
				if !strings.HasSuffix(out.String(), "\x1b[K") && out.Len() > 0 {
					t.Errorf("the line was left: %q", out.String())
				}
			})
		})
	}
}

func TestProgressCanGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, tty: true, now: time.Now}
		p.step("one")
		p.done()
		p.done()
		p.step("two")
		time.Sleep(time.Second)
		p.done()
		if strings.Contains(out.String(), "one") || !strings.Contains(out.String(), "two") {
			t.Errorf("said %q", out.String())
		}
	})
}

func TestPullInOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, tty: true, now: time.Now}
		report := p.pulling("registry.example.org/a\x1b[2J")
		report(container.Progress{Message: "resolving"})
		time.Sleep(2 * time.Second)
		report(container.Progress{Layer: "l1", Done: 10 * megabyte, Total: 30 * megabyte})
		report(container.Progress{Layer: "l2", Done: 10 * megabyte, Total: 10 * megabyte})
		time.Sleep(time.Second)
		p.done()
		for _, want := range []string{"pulling registry.example.org/a", ": resolving", ": 20MB of 40MB, 2 layers, 3s left"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing from %q", want, out.String())
			}
		}
		if strings.Contains(out.String(), "\x1b[2J") {
			t.Errorf("the image's name acted on the terminal: %q", out.String())
		}
	})
}

func TestPullElsewhereSaysLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := &progress{w: &out, now: time.Now}
		p.step("connecting to Podman")
		report := p.pulling("a")
		for range 25 {
			time.Sleep(time.Second)
			report(container.Progress{Layer: "l", Done: megabyte, Total: 2 * megabyte})
		}
		p.done()
		if n := strings.Count(out.String(), "\n"); n != 2 || strings.ContainsAny(out.String(), "\r\x1b") {
			t.Errorf("%d lines: %q", n, out.String())
		}
	})
}
