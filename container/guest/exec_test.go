package guest

import (
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestExitStatus(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		script string
		want   ExitStatus
	}{
		{"exit 0", ExitStatus{Exited: true}},
		{"exit 7", ExitStatus{Exited: true, Code: 7}},
		{"exit 255", ExitStatus{Exited: true, Code: 255}},
		{"kill -KILL $$", ExitStatus{Signal: unix.SIGKILL}},
		{"kill -TERM $$", ExitStatus{Signal: unix.SIGTERM}},
		{"sh -c 'kill -KILL $$'; exit $?", ExitStatus{Exited: true, Code: 137}},
	} {
		_, _, got := b.output(b.request("sh", "-c", c.script))
		if got.Exited != c.want.Exited || got.Code != c.want.Code || got.Signal != c.want.Signal || got.Background != 0 {
			t.Errorf("%q: got %+v, want %+v", c.script, got, c.want)
		}
		if got.MaxRSS <= 0 || got.User+got.System <= 0 {
			t.Errorf("%q: no usage: %+v", c.script, got)
		}
	}
}

func TestStartErrors(t *testing.T) {
	b := newBox(t)
	for name, file := range map[string]struct {
		content string
		mode    os.FileMode
	}{
		"plain":  {"echo", 0o644},
		"noexec": {"\x01\x02", 0o755},
		"bad":    {"#!/nowhere/interpreter\n", 0o755},
		"good":   {"#!/bin/sh\nexit 5\n", 0o755},
	} {
		path := filepath.Join(b.workspace, name)
		if err := os.WriteFile(path, []byte(file.content), file.mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(b.workspace, "closed"), 0o700); err != nil { // of another uid
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*ExecRequest)
		want   StartError
	}{
		{"no such program", func(r *ExecRequest) { r.Argv = []string{"no-such-program"} }, StartError{PhaseLookup, unix.ENOENT}},
		{"no such file", func(r *ExecRequest) { r.Argv = []string{"/no/such"} }, StartError{PhaseExec, unix.ENOENT}},
		{"empty name", func(r *ExecRequest) { r.Argv = []string{""} }, StartError{PhaseLookup, unix.ENOENT}},
		{"not executable", func(r *ExecRequest) { r.Argv = []string{"./plain"} }, StartError{PhaseExec, unix.EACCES}},
		{"not executable in path", func(r *ExecRequest) { r.Argv, r.Env = []string{"plain"}, []string{"PATH=/workspace"} }, StartError{PhaseLookup, unix.EACCES}},
		{"a directory", func(r *ExecRequest) { r.Argv = []string{"/usr"} }, StartError{PhaseExec, unix.EACCES}},
		{"no format", func(r *ExecRequest) { r.Argv = []string{"./noexec"} }, StartError{PhaseExec, unix.ENOEXEC}},
		{"no interpreter", func(r *ExecRequest) { r.Argv = []string{"./bad"} }, StartError{PhaseExec, unix.ENOENT}},
		{"no directory", func(r *ExecRequest) { r.Dir = "/no/such" }, StartError{PhaseCwd, unix.ENOENT}},
		{"directory is a file", func(r *ExecRequest) { r.Dir = "/etc/passwd" }, StartError{PhaseCwd, unix.ENOTDIR}},
		{"directory is closed", func(r *ExecRequest) { r.Dir = "/workspace/closed" }, StartError{PhaseCwd, unix.EACCES}},
		{"home cannot be", func(r *ExecRequest) { r.Home = "/usr/home-u" }, StartError{PhaseHome, unix.EROFS}},
		{"limit raised", func(r *ExecRequest) { r.Rlimits = []Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 9000, Hard: 9000}} }, StartError{PhaseRlimit, unix.EPERM}},
		{"limit of the address space", func(r *ExecRequest) { r.Rlimits = []Rlimit{{Resource: unix.RLIMIT_AS, Soft: 1, Hard: 1}} }, StartError{PhaseRlimit, unix.EINVAL}},
	} {
		r := b.request("true")
		c.change(&r)
		_, err := b.link.Exec(b.context(), r)
		got, ok := errors.AsType[*StartError](err)
		if !ok || *got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, err, &c.want)
		}
	}
	if _, _, st := b.output(b.request("./good")); st.Code != 5 {
		t.Errorf("after failures: %+v", st)
	}
}

func TestLookup(t *testing.T) {
	b := newBox(t)
	tool := func(dir, answer string, mode os.FileMode) {
		dir = filepath.Join(b.workspace, dir)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho "+answer+"\n"), mode)); err != nil {
			t.Fatal(err)
		}
	}
	tool("a", "a", 0o644)
	tool("b", "b", 0o755)
	tool("c", "c", 0o755)
	for _, c := range []struct{ path, want string }{
		{"/workspace/a:/workspace/b:/workspace/c", "b"},
		{"/workspace/c:/workspace/b", "c"},
		{"/nowhere:b", "b"}, // relative to the working directory
		{"/workspace/a:c:/workspace/b", "c"},
	} {
		r := b.request("tool")
		r.Env = []string{"PATH=" + c.path}
		if out, _, _ := b.output(r); strings.TrimSpace(out) != c.want {
			t.Errorf("PATH=%s: got %q, want %q", c.path, out, c.want)
		}
	}
	r := b.request("tool")
	r.Dir, r.Env = "/workspace/b", []string{"PATH="}
	if out, _, _ := b.output(r); out != "b\n" {
		t.Errorf("empty PATH: got %q", out)
	}
	r = b.request("true")
	r.Env = nil
	if _, _, st := b.output(r); st.Code != 0 || !st.Exited {
		t.Errorf("no PATH: %+v", st)
	}
}

func TestProgramSurroundings(t *testing.T) {
	b := newBox(t)
	for script, want := range map[string]string{
		"id -u; id -g; id -G":   "1000\n1000\n1000",
		"pwd":                   "/workspace",
		"umask":                 "0022",
		"ulimit -c":             "0",
		"stat -c %a:%u /home/u": "700:1000",
		"env | grep -v -e ^PWD= -e ^_= -e ^SHLVL= -e ^OLDPWD= | sort":                       "HOME=/home/u\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin",
		"cat /proc/self/oom_score_adj":                                                      "1000",
		"ls /proc/self/fd | wc -l":                                                          "4", // and the one of ls
		"(echo by name >/dev/stderr) 2>&1":                                                  "by name",
		"readlink /proc/self/fd/0":                                                          "/dev/null",
		"ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo own":                            "own",
		"touch /workspace/made; stat -c %u /workspace/made":                                 "1000",
		"cat /proc/1/environ 2>/dev/null || echo closed":                                    "closed",
		"kill -KILL $(ps -o ppid= -p $$) 2>/dev/null || echo shim is safe":                  "shim is safe",
		"cat /proc/$(ps -o ppid= -p $$ | tr -d ' ')/mem 2>/dev/null || echo shim is closed": "shim is closed",
	} {
		if got := b.sh(script); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(b.workspace, "made")); err != nil || info.Sys().(*syscall.Stat_t).Uid != hostUID {
		t.Errorf("owner on the host: %v, %v", info, err)
	}
}

func TestRlimits(t *testing.T) {
	b := newBox(t)
	r := b.request("sh", "-c", "ulimit -Hn; ulimit -Sn; ulimit -Hf")
	r.Rlimits = []Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 100, Hard: 200}, {Resource: unix.RLIMIT_FSIZE, Soft: 512 * 8, Hard: 512 * 8}}
	if out, _, _ := b.output(r); out != "200\n100\n8\n" {
		t.Errorf("limits inside: %q", out)
	}
	// The limits were for that call alone.
	if got := b.sh("ulimit -Hn"); got != "4096" {
		t.Errorf("limit of the next call: %s", got)
	}
}

// TestStreams sends 100 MiB through a program, byte for byte, with both pipes
// in use at once.
func TestStreams(t *testing.T) {
	const size = 100 << 20
	b := newBox(t)
	p := b.exec(b.request("sh", "-c", "tee /dev/stderr"))
	chunk := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(chunk)
	want := sha256.New()
	var wg sync.WaitGroup
	wg.Go(func() {
		for range size / len(chunk) {
			want.Write(chunk)
			if _, err := p.Stdin.Write(chunk); err != nil {
				t.Error(err)
			}
		}
		p.Stdin.Close()
	})
	var sums [2]string
	for i, f := range []*os.File{p.Stdout, p.Stderr} {
		wg.Go(func() {
			h := sha256.New()
			if n, err := io.Copy(h, f); err != nil || n != size {
				t.Errorf("stream %d: %d bytes, %v", i+1, n, err)
			}
			sums[i] = string(h.Sum(nil))
		})
	}
	wg.Wait()
	if st := b.wait(p); !st.Exited || st.Code != 0 {
		t.Fatalf("%+v", st)
	}
	if sum := string(want.Sum(nil)); sums[0] != sum || sums[1] != sum {
		t.Error("the bytes differ")
	}
}

// TestBackground: the outcome comes at once although a child holds the pipes;
// the child is listed under its call and ends with it.
func TestBackground(t *testing.T) {
	b := newBox(t)
	p := b.exec(b.request("sh", "-c", "sleep 1000 & echo started; exit 3"))
	st := b.wait(p)
	if st.Code != 3 || st.Background != 1 {
		t.Fatalf("%+v", st)
	}
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, ErrNoProcess) {
		t.Errorf("signal after the end: %v", err)
	}
	setReadDeadline(t, p.Stdout, time.Now().Add(100*time.Millisecond))
	if out, err := io.ReadAll(p.Stdout); string(out) != "started\n" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the pipe: %q, %v", out, err)
	}
	left := b.processes()[p.id]
	if len(left) != 1 || left[0].Name != "sleep" || left[0].UID != programUID {
		t.Fatalf("listed: %+v", left)
	}
	if err := p.Kill(b.context()); err != nil {
		t.Fatal(err)
	}
	setReadDeadline(t, p.Stdout, time.Time{})
	if _, err := io.ReadAll(p.Stdout); err != nil {
		t.Errorf("the pipe after the kill: %v", err)
	}
	if left := b.processes(); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestCallIDs(t *testing.T) {
	b := newBox(t)
	r := b.request("sleep", "1000")
	p := b.exec(r)
	_, err := b.link.Exec(b.context(), r)
	if got, ok := errors.AsType[*StartError](err); !ok || *got != (StartError{PhaseCall, unix.EEXIST}) {
		t.Errorf("id in use: %v", err)
	}
	if err := b.link.Kill(b.context(), r.ID); err != nil {
		t.Fatal(err)
	}
	if st := b.wait(p); st.Signal != unix.SIGKILL {
		t.Errorf("%+v", st)
	}
	if err := b.link.Kill(b.context(), "never-was"); err != nil {
		t.Errorf("kill of nothing: %v", err)
	}
	if err := b.link.Signal(b.context(), "never-was", unix.SIGTERM); !errors.Is(err, ErrNoProcess) {
		t.Errorf("signal to nothing: %v", err)
	}
	// Once the outcome is known the id is free.
	for range 50 {
		r := b.request("true")
		r.ID = "again"
		if _, _, st := b.output(r); st.Code != 0 {
			t.Fatalf("%+v", st)
		}
	}
}

func TestInvalidRequests(t *testing.T) {
	b := newBox(t)
	for name, change := range map[string]func(*ExecRequest){
		"no id":             func(r *ExecRequest) { r.ID = "" },
		"long id":           func(r *ExecRequest) { r.ID = strings.Repeat("x", 129) },
		"no program":        func(r *ExecRequest) { r.Argv = nil },
		"relative":          func(r *ExecRequest) { r.Dir = "workspace" },
		"relative home":     func(r *ExecRequest) { r.Home = "home" },
		"zero byte":         func(r *ExecRequest) { r.Argv = []string{"a\x00b"} },
		"too much":          func(r *ExecRequest) { r.Env = []string{strings.Repeat("x", 1<<20)} },
		"too many":          func(r *ExecRequest) { r.Env = make([]string, 10000) },
		"more than a frame": func(r *ExecRequest) { r.Env = slicesRepeat("A="+strings.Repeat("x", 100<<10), 20) },
	} {
		r := b.request("true")
		change(&r)
		if _, err := b.link.Exec(b.context(), r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if got := b.sh("echo alive"); got != "alive" {
		t.Errorf("afterwards: %q", got)
	}
}

func slicesRepeat(s string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = s
	}
	return list
}

func TestLargeEnvironment(t *testing.T) {
	b := newBox(t)
	r := b.request("sh", "-c", "echo ${#BIG}")
	r.Env = append(r.Env, "BIG="+strings.Repeat("x", 120<<10))
	for range 12 { // enough to wear shims out
		if out, _, _ := b.output(r); out != "122880\n" {
			t.Fatalf("%q", out)
		}
	}
}

func TestSignal(t *testing.T) {
	b := newBox(t)
	p := b.exec(b.request("sh", "-c", "trap 'echo got; exit 9' USR1; echo ready; while :; do sleep 0.01; done"))
	buf := make([]byte, 64)
	if n, err := p.Stdout.Read(buf); err != nil || string(buf[:n]) != "ready\n" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	if err := p.Signal(unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if st := b.wait(p); st.Code != 9 {
		t.Errorf("%+v", st)
	}
}
