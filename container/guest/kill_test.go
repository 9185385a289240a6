package guest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// waitForOutput waits until the program has printed a line.
func (b *box) waitForOutput(p *Process) {
	b.tb.Helper()
	if _, err := p.Stdout.Read(make([]byte, 64)); err != nil {
		b.tb.Fatal(err)
	}
}

// forkBomb is a program that forks for ever, whatever fails. Shells give up at
// the first fork that does.
func forkBomb() []string {
	return []string{"perl", "-e", `$SIG{CHLD} = "IGNORE"; $| = 1; print "up\n"; while (1) { fork }`}
}

// TestKillTree is the table of what other ways of killing miss. In each row
// everything of the call ends and the daemon of a neighbour lives on.
func TestKillTree(t *testing.T) {
	b := newBox(t)
	refork := "#!/bin/sh\nsleep 0.004\nsetsid /workspace/refork &\nexit 0\n"
	if err := os.WriteFile(filepath.Join(b.workspace, "refork"), []byte(refork), 0o755); err != nil {
		t.Fatal(err)
	}
	neighbour := b.exec(b.request("sh", "-c", "setsid sleep 4242 >/dev/null 2>&1 & exit 0"))
	if st := b.wait(neighbour); st.Background != 1 {
		t.Fatalf("neighbour: %+v", st)
	}
	for _, c := range []struct{ name, script string }{
		{"children", "sleep 1000 & sleep 1000 & echo up; wait"},
		{"daemon", "setsid sleep 1000 >/dev/null 2>&1 & echo up; exec sleep 1000"},
		{"daemon after the end", "setsid sleep 1000 >/dev/null 2>&1 & echo up"},
		{"cleared environment and double fork", "(setsid env -i sh -c 'sleep 1000 & sleep 1000 & exit 0' >/dev/null 2>&1 &); echo up; exec sleep 1000"},
		{"ignoring signals", "trap '' TERM INT HUP QUIT; sh -c 'trap \"\" TERM INT; while :; do sleep 1; done' & echo up; while :; do sleep 1; done"},
		{"stopped", "sleep 1000 & kill -STOP $!; echo up; kill -STOP $$"},
		{"re-forking daemons", "for i in 1 2 3 4 5 6 7 8; do setsid /workspace/refork >/dev/null 2>&1 & done; echo up; sleep 1000"},
		{"fork bomb", ""},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			b := *b
			b.tb = t
			for range 3 {
				r := b.request("sh", "-c", c.script)
				r.ID = c.name
				r.Rlimits = []Rlimit{{Resource: unix.RLIMIT_NPROC, Soft: 200, Hard: 200}}
				if c.name == "fork bomb" {
					r.Argv = forkBomb()
				}
				p := b.exec(r)
				b.waitForOutput(p)
				if c.name == "fork bomb" {
					eventually(t, "the bomb is going off", func() bool { return b.programs() > 50 })
				}
				if err := p.Kill(b.context()); err != nil {
					t.Fatal(err)
				}
				b.wait(p)
				if left := b.processes(); len(left[r.ID]) != 0 {
					t.Errorf("left of the call: %+v", left[r.ID])
				}
				if n := b.programs(); n != 1 {
					t.Errorf("%d programs are there, want the neighbour alone: %+v", n, b.hostProcesses())
				}
			}
		})
	}
	if left := b.processes()[neighbour.id]; len(left) != 1 || left[0].Name != "sleep" {
		t.Errorf("the neighbour: %+v", left)
	}
}

func TestReset(t *testing.T) {
	b := newBox(t)
	var all []*Process
	for range 5 {
		p := b.exec(b.request("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo up; exec sleep 1000"))
		b.waitForOutput(p)
		all = append(all, p)
	}
	if err := b.link.Reset(b.context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if st := b.wait(p); st.Signal != unix.SIGKILL {
			t.Errorf("%+v", st)
		}
	}
	if n := b.programs(); n != 0 {
		t.Errorf("%d programs are left", n)
	}
	if got := b.sh("echo alive"); got != "alive" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestShimKilled: when the kernel kills a shim, its call still ends wholly and
// with the truth.
func TestShimKilled(t *testing.T) {
	b := newBox(t)
	other := b.exec(b.request("sleep", "1000"))
	p := b.exec(b.request("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo up; exec sleep 1000"))
	b.waitForOutput(p)
	if err := unix.Kill(b.parentOnHost(p), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if st := b.wait(p); st.Signal != unix.SIGKILL {
		t.Errorf("%+v", st)
	}
	eventually(t, "only the other call is left", func() bool { return b.programs() == 1 })
	if left := b.processes(); len(left[other.id]) != 1 || len(left) != 1 {
		t.Errorf("left: %+v", left)
	}
}

// TestZombies: nothing that ends stays, whoever its parent was.
func TestZombies(t *testing.T) {
	b := newBox(t)
	b.sh("i=0; while [ $i -lt 200 ]; do (sleep 0.05 &) ; i=$((i+1)); done")
	eventually(t, "nothing but init and its shims", func() bool {
		for _, p := range b.hostProcesses() {
			if p.zombie {
				return false
			}
		}
		return b.programs() == 0
	})
	if left := b.processes(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestShutdown(t *testing.T) {
	b := newBox(t)
	p := b.exec(b.request("sleep", "1000"))
	if err := b.link.Shutdown(b.context()); err != nil {
		t.Fatal(err)
	}
	<-b.link.Done()
	if _, err := p.Wait(b.context()); !errors.Is(err, ErrLost) {
		t.Errorf("wait: %v", err)
	}
	<-b.ended
	if b.stderr.Len() > 0 {
		t.Errorf("init said %s", b.stderr)
	}
}

// TestSignalsToInit sends every signal to init, as a program and as uid 0.
func TestSignalsToInit(t *testing.T) {
	b := newBox(t)
	for _, uid := range []uint32{programUID, 0} {
		r := b.request("sh", "-c", "n=0; for s in $(seq 1 64) 9 19; do kill -$s 1 2>/dev/null && n=$((n+1)); done; echo $n")
		r.UID, r.GID, r.Home = uid, uid, ""
		r.HostUID, r.HostGID = hostBase+uid, hostBase+uid
		out, _, st := b.output(r)
		if uid != 0 && out != "0\n" {
			t.Errorf("a program could send %s signals", out)
		}
		if uid == 0 && out == "0\n" {
			t.Error("uid 0 sent none: the test proves nothing")
		}
		if !st.Exited {
			t.Errorf("uid %d: %+v", uid, st)
		}
		if got := b.sh("echo alive"); got != "alive" {
			t.Errorf("uid %d: afterwards %q", uid, got)
		}
	}
}
