package workspace

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// rebind takes an event and calls Rebind as uid.
func rebind(t *testing.T, p *Plan, b *box, l Lost, uid int) Rebound {
	t.Helper()
	if uid == 0 {
		start := time.Now()
		out, err := p.Rebind(t.Context(), b.pid, l)
		t.Logf("bound %d again in %v", len(out.Bound), time.Since(start).Round(time.Millisecond))
		if err != nil {
			t.Fatal(err, errorsCause(err))
		}
		return out
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(worldDir(t), "plan.json")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("/proc/self/exe", "_call", strconv.Itoa(uid), "rebind", file, strconv.Itoa(b.pid), l.Mount.Destination).Output()
	if err != nil {
		t.Fatalf("rebind as %d: %v: %s", uid, err, text)
	}
	var out Rebound
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func await(t *testing.T, lost <-chan Lost, name string) Lost {
	t.Helper()
	for {
		select {
		case l, ok := <-lost:
			if !ok {
				t.Fatal("the watch ended")
			}
			if l.Mount.Destination == name {
				return l
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event for %s", name)
		}
	}
}

// TestBoxRebind does on the host what takes a mount away, and wants it back.
func TestBoxRebind(t *testing.T) {
	for name, uid := range users {
		t.Run(name, func(t *testing.T) {
			dir := worldDir(t)
			gitRepo(t, dir)
			build(t, dir, map[string]string{".envrc": "old", ".env": "SECRET=1", ".husky/pre-commit": "true"})
			_, p := planned(t, dir, gitWrite, uid)
			lost, err := p.Watch(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b := startBox(t, p, uid)
			b.run("cd " + dir)

			// git config: rename over the file.
			gitAs(t, uid, dir, "config", "x.y", "host")
			l := await(t, lost, dir+"/.git/config")
			if out := rebind(t, p, b, l, uid); len(out.Bound) != 1 || out.Tampered || out.Doubt != (uid != 0) {
				// The other user's Rebind runs in a process that has seen no event.
				t.Errorf("git config: %+v", out)
			}
			b.fails("echo x >> .git/config", "Read-only file system")
			b.works("grep -q host .git/config")

			// An atomic save of a hidden file.
			write(t, dir+"/.env.new~", "SECRET=2")
			rename(t, dir+"/.env.new~", dir+"/.env")
			l = await(t, lost, dir+"/.env")
			rebind(t, p, b, l, uid)
			if out := b.works("cat .env"); out != "" {
				t.Errorf("the new secret is visible: %q", out)
			}

			// A removal: the placeholder takes the place.
			remove(t, dir+"/.envrc")
			l = await(t, lost, dir+"/.envrc")
			rebind(t, p, b, l, uid)
			b.fails("echo x > .envrc", "")
			b.fails("rmdir .envrc", "busy")

			// A placeholder that becomes a file.
			remove(t, dir+"/.mcp.json")
			write(t, dir+"/.mcp.json", "{}")
			l = await(t, lost, dir+"/.mcp.json")
			rebind(t, p, b, l, uid)
			b.fails("echo x > .mcp.json", "Read-only file system")

			// The directory above a mount is moved away and made anew.
			rename(t, dir+"/.github", dir+"/g2")
			l = await(t, lost, dir+"/.github")
			if out := rebind(t, p, b, l, uid); len(out.Bound) != 2 {
				t.Errorf("mv .github: %+v", out)
			}
			b.fails("echo x > .github/workflows/x", "Read-only file system")
			b.fails("mv .github g3", "busy")

			if missing, err := p.Verify(b.pid); err != nil || len(missing) > 0 {
				t.Errorf("not in force at the end: %+v %v", missing, err)
			}
		})
	}
}

func rename(t testing.TB, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
}

// TestBoxRebindSeesOpenFiles: what was opened while a file lay bare is found.
func TestBoxRebindSeesOpenFiles(t *testing.T) {
	dir := worldDir(t)
	build(t, dir, map[string]string{".envrc": "old", ".husky/pre": "x", "src/a": "a"})
	_, p := planned(t, dir, writable, 0)
	b := startBox(t, p, 0)
	b.run("cd " + dir)
	mount := func(name string) Lost {
		for _, m := range p.Mounts {
			if m.Destination == dir+"/"+name {
				return Lost{Mount: m}
			}
		}
		t.Fatalf("no mount on %s", name)
		return Lost{}
	}
	expose := func(name string) {
		write(t, dir+"/src/new", "new")
		rename(t, dir+"/src/new", dir+"/"+name)
	}
	for _, c := range []struct{ what, open, close string }{
		{"for writing", "exec 9>>.envrc", "exec 9>&-"},
		{"for reading", "exec 9<.envrc", "exec 9<&-"},
		{"by a second name", "ln .envrc src/second", "rm src/second"},
		{"not at all", "true", "true"},
	} {
		expose(".envrc")
		b.works(c.open)
		if out := rebind(t, p, b, mount(".envrc"), 0); out.Tampered != (c.what != "not at all") {
			t.Errorf("%s: tampered %v", c.what, out.Tampered)
		}
		b.works(c.close)
	}
	rename(t, dir+"/.husky", dir+"/h2")
	build(t, dir, map[string]string{".husky/pre": "y"})
	b.works("cd .husky")
	if out := rebind(t, p, b, mount(".husky"), 0); !out.Tampered {
		t.Error("a working directory in the exposed directory was not seen")
	}
}

// TestBoxRebindDoubts: what the session did to a file while it lay bare, and has let go of again, shows.
func TestBoxRebindDoubts(t *testing.T) {
	dir := worldDir(t)
	build(t, dir, map[string]string{".envrc": "old", "src/a": "a"})
	_, p := planned(t, dir, writable, 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost, err := p.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b := startBox(t, p, 0)
	b.run("cd " + dir)
	host := func() {
		write(t, dir+"/src/new", "new")
		rename(t, dir+"/src/new", dir+"/.envrc")
	}
	for _, c := range []struct {
		what  string
		do    func()
		doubt bool
	}{
		{"the host replaces it", host, false},
		{"the session writes to it", func() { host(); b.works("echo evil >> .envrc") }, true},
		{"the session replaces it again", func() { host(); b.works("echo evil > src/evil && mv src/evil .envrc") }, true},
		{"the session makes it where the host removed it", func() { remove(t, dir+"/.envrc"); b.works("echo evil > .envrc") }, true},
		{"the host replaces it once more", host, false},
	} {
		c.do()
		out := rebind(t, p, b, await(t, lost, dir+"/.envrc"), 0)
		if len(out.Bound) != 1 || out.Doubt != c.doubt {
			t.Errorf("%s: %+v", c.what, out)
		}
	}
	b.fails("echo x > .envrc", "Read-only file system")
	// In-place edits on the host take nothing away.
	write(t, dir+"/.envrc", "edited")
	select {
	case l := <-lost:
		if out := rebind(t, p, b, l, 0); len(out.Bound) > 0 {
			t.Errorf("an edit in place: %+v", out)
		}
	case <-time.After(50 * time.Millisecond):
	}
	cancel()
	for range lost { // until it is closed
	}
}

// TestWatchUnderFlood: a program that makes and removes files without end hides no event.
func TestWatchUnderFlood(t *testing.T) {
	dir := tempDir(t)
	build(t, dir, map[string]string{".envrc": "old"})
	p := newPlan(t, dir, tempDir(t), "s-1", writable)
	defer p.Release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost, err := p.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range 2 {
		wg.Go(func() {
			name := filepath.Join(dir, "flood"+strconv.Itoa(i))
			for ctx.Err() == nil {
				_ = os.WriteFile(name, nil, 0o644)
				_ = os.Remove(name)
			}
		})
	}
	for range 20 {
		write(t, dir+"/new", "new")
		rename(t, dir+"/new", dir+"/.envrc")
		await(t, lost, dir+"/.envrc")
	}
	cancel()
	wg.Wait()
}

// TestBoxRebindRefusesLinks: a link cannot be covered.
func TestBoxRebindRefusesLinks(t *testing.T) {
	dir := worldDir(t)
	build(t, dir, map[string]string{".envrc": "old"})
	_, p := planned(t, dir, writable, 0)
	b := startBox(t, p, 0)
	remove(t, dir+"/.envrc")
	if err := os.Symlink("src", dir+"/.envrc"); err != nil {
		t.Fatal(err)
	}
	for _, m := range p.Mounts {
		if m.Destination == dir+"/.envrc" {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if _, err := p.Rebind(ctx, b.pid, Lost{Mount: m}); err == nil {
				t.Error("a link was accepted")
			}
		}
	}
}
