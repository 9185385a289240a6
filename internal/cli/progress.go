package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docker/go-units"

	"realm.dev/container"
	"realm.dev/internal/term"
)

const (
	// progressDelay is how long something may take before it is worth a line.
	progressDelay = 300 * time.Millisecond
	progressTick  = 100 * time.Millisecond
	// plainTick is between the lines of a long pull where no line can be redrawn.
	plainTick = 10 * time.Second
)

// progress tells a waiting person what takes so long: on a terminal in one line
// that is redrawn and at last removed; elsewhere only pulls say something.
type progress struct {
	w   io.Writer
	tty bool
	now func() time.Time

	mu    sync.Mutex
	text  string
	since time.Time // when the present step began
	drawn bool
	pull  *pull
	told  time.Time // when the last plain line was written
	quit  chan struct{}
	over  sync.WaitGroup
}

func newProgress(w io.Writer) *progress {
	_, tty := term.IsTerminal(w)
	return &progress{w: w, tty: tty, now: time.Now}
}

// step names what is done from now on.
func (p *progress) step(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.since, p.pull = text, p.now(), nil
	if p.tty && p.quit == nil {
		quit := make(chan struct{})
		p.quit = quit
		p.over.Go(func() { p.tick(quit) })
	}
}

// pulling begins a pull and returns what takes its reports.
func (p *progress) pulling(ref string) func(container.Progress) {
	p.step("pulling " + ref)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pull = &pull{began: p.now(), layers: map[string]container.Progress{}}
	p.told = p.now()
	return p.pulled
}

func (p *progress) pulled(r container.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pull == nil {
		return
	}
	p.pull.add(r)
	if !p.tty && p.now().Sub(p.told) >= plainTick {
		p.told = p.now()
		say(p.w, "%s", p.line())
	}
}

// done removes the line. The next step may draw one again.
func (p *progress) done() {
	p.mu.Lock()
	quit := p.quit
	p.quit, p.pull = nil, nil
	p.mu.Unlock()
	if quit == nil {
		return
	}
	close(quit)
	p.over.Wait()
}

func (p *progress) tick(quit chan struct{}) {
	t := time.NewTicker(progressTick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			p.draw()
		case <-quit:
			p.erase()
			return
		}
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now().Sub(p.since) < progressDelay && !p.drawn {
		return
	}
	p.drawn = true
	fmt.Fprintf(p.w, "\r\x1b[K%s", fit(term.Escape("realm: "+p.line()), p.w))
}

func (p *progress) erase() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		p.drawn = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// line is the present step in words. Preconditions: mu is held.
func (p *progress) line() string {
	if p.pull == nil {
		return p.text
	}
	return p.text + p.pull.describe(p.now())
}

// fit cuts text to the terminal's width: a line that wraps cannot be redrawn.
func fit(text string, w io.Writer) string {
	runes := []rune(text)
	if f, ok := term.IsTerminal(w); ok {
		if size, err := term.SizeOf(f); err == nil && size.Cols > 1 && len(runes) >= int(size.Cols) {
			runes = runes[:size.Cols-1]
		}
	}
	return string(runes)
}

// pull is how far a pull has come.
type pull struct {
	began  time.Time
	layers map[string]container.Progress
	say    string
}

func (p *pull) add(r container.Progress) {
	if r.Message != "" {
		p.say = r.Message
	}
	if r.Layer != "" {
		p.layers[r.Layer] = r
	}
}

// describe gives bytes and layers and, while it is known, the time that is left.
func (p *pull) describe(now time.Time) string {
	var done, total int64
	for _, l := range p.layers {
		done += l.Done
		total += max(l.Total, l.Done)
	}
	if done == 0 {
		if p.say == "" {
			return ""
		}
		return ": " + p.say
	}
	text := fmt.Sprintf(": %s of %s, %d layers", units.HumanSize(float64(done)), units.HumanSize(float64(total)), len(p.layers))
	if took := now.Sub(p.began); took >= time.Second && total > done {
		left := time.Duration(float64(took) * float64(total-done) / float64(done))
		text += ", " + left.Round(time.Second).String() + " left"
	}
	return text
}
