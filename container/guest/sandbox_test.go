package guest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests run realm-init as the first process of real namespaces, which the
// test binary itself sets up in a stage of its own: see stage_test.go.

const (
	hostBase   = 100000          // uid 0 of the container, on the host
	programUID = 1000            // of programs, in the container
	hostUID    = hostBase + 1000 // of programs, on the host
)

func TestMain(m *testing.M) {
	if config := os.Getenv(stageEnv); config != "" {
		fmt.Fprintln(os.Stderr, "stage:", runStage(config))
		os.Exit(1)
	}
	code := m.Run()
	if built {
		path, _ := initBinary()
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// built says that there is a binary to remove.
var built bool

var initBinary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "realm-init-")
	if err != nil {
		return "", err
	}
	built = true
	path := filepath.Join(dir, "realm-init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "realm.dev/cmd/realm-init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return path, fmt.Errorf("build realm-init: %w: %s", err, out)
	}
	return path, errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0o755))
})

// box is one container without Podman.
type box struct {
	tb        testing.TB
	dir       string // of the socket, on the host
	workspace string // on the host; /workspace inside
	pid       int    // of init, on the host
	link      *Link
	ended     chan struct{} // closed when init is reaped
	stderr    *bytes.Buffer
	serial    int
}

// newBox starts a container and accepts its init.
func newBox(tb testing.TB, change ...func(*stageConfig)) *box {
	tb.Helper()
	return startBox(tb, DefaultOwnerGrace, change...)
}

func startBox(tb testing.TB, grace time.Duration, change ...func(*stageConfig)) *box {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root to write the id maps of a user namespace")
	}
	binary, err := initBinary()
	if err != nil {
		tb.Fatal(err)
	}
	base, err := os.MkdirTemp("", "realm-guest-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(base) })
	b := &box{tb: tb, dir: filepath.Join(base, "link"), workspace: filepath.Join(base, "workspace"), ended: make(chan struct{}), stderr: &bytes.Buffer{}}
	root := filepath.Join(base, "root")
	for _, d := range []string{b.dir, b.workspace, root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			tb.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(base, 0o711), os.Chown(b.workspace, hostUID, hostUID)); err != nil {
		tb.Fatal(err)
	}
	l, err := Listen(b.dir)
	if err != nil {
		tb.Fatal(err)
	}
	l.OwnerGrace = grace
	config := stageConfig{Root: root, Link: b.dir, Workspace: b.workspace, Init: binary}
	for _, f := range change {
		f(&config)
	}
	b.start(config)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	go func() { // a stage that failed never dials
		select {
		case <-b.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	b.link, err = l.Accept(ctx, b.pid)
	if err != nil {
		<-b.ended
		tb.Fatalf("accept: %v; %s", err, b.stderr)
	}
	tb.Cleanup(func() { b.link.Close() })
	return b
}

func (b *box) start(config stageConfig) {
	b.tb.Helper()
	encoded, err := json.Marshal(config)
	if err != nil {
		b.tb.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), stageEnv+"="+string(encoded))
	cmd.Stderr = b.stderr
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: hostBase, Size: 65536}}
	flags := syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP
	if !config.HostNetwork {
		flags |= syscall.CLONE_NEWNET
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  uintptr(flags),
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
		Pdeathsig:  syscall.SIGKILL,
	}
	gate, open := b.gate(config)
	cmd.Stdin = gate
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
			b.tb.Skipf("namespaces are not permitted here: %v", err)
		}
		b.tb.Fatal(err)
	}
	b.pid = cmd.Process.Pid
	open(b.pid)
	go func() {
		cmd.Wait()
		close(b.ended)
	}()
	b.tb.Cleanup(func() {
		cmd.Process.Kill()
		<-b.ended
	})
}

// gate keeps the stage waiting until it is in its cgroup.
func (b *box) gate(config stageConfig) (stdin *os.File, open func(pid int)) {
	if config.Cgroup == "" {
		return nil, func(int) {}
	}
	r, w, err := os.Pipe()
	if err != nil {
		b.tb.Fatal(err)
	}
	return r, func(pid int) {
		r.Close()
		defer w.Close()
		if err := os.WriteFile(filepath.Join(config.Cgroup, "cgroup.procs"), []byte(fmt.Sprint(pid)), 0o644); err != nil {
			b.tb.Error(err)
		}
	}
}

// request is a program with the usual surroundings.
func (b *box) request(argv ...string) ExecRequest {
	b.serial++
	return ExecRequest{
		ID: fmt.Sprintf("call-%d", b.serial), Argv: argv,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/u", "LANG=C.UTF-8"},
		Dir: "/workspace", UID: programUID, GID: programUID, HostUID: hostUID, HostGID: hostUID,
		Home: "/home/u",
	}
}

func (b *box) exec(r ExecRequest) *Process {
	b.tb.Helper()
	p, err := b.link.Exec(b.context(), r)
	if err != nil {
		b.tb.Fatalf("exec %q: %v; %s", r.Argv, err, b.stderr)
	}
	b.tb.Cleanup(p.closeFiles)
	return p
}

// context bounds everything a test waits for.
func (b *box) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	b.tb.Cleanup(cancel)
	return ctx
}

func (b *box) wait(p *Process) ExitStatus {
	b.tb.Helper()
	st, err := p.Wait(b.context())
	if err != nil {
		b.tb.Fatalf("wait: %v; %s", err, b.stderr)
	}
	return st
}

// output runs a program to its end and returns what it printed.
func (b *box) output(r ExecRequest) (stdout, stderr string, st ExitStatus) {
	b.tb.Helper()
	r.NoStdin = true
	p := b.exec(r)
	var out, errs []byte
	var wg sync.WaitGroup
	wg.Go(func() { out, _ = io.ReadAll(p.Stdout) })
	wg.Go(func() { errs, _ = io.ReadAll(p.Stderr) })
	st = b.wait(p)
	wg.Wait()
	return string(out), string(errs), st
}

// sh runs a shell script that has to succeed and returns its output.
func (b *box) sh(script string) string {
	b.tb.Helper()
	out, errs, st := b.output(b.request("sh", "-c", script))
	if !st.Exited || st.Code != 0 {
		b.tb.Fatalf("script %q: %+v: %s%s", script, st, out, errs)
	}
	return strings.TrimSpace(out)
}

// processes is the list of processes, by call.
func (b *box) processes() map[string][]ProcessInfo {
	b.tb.Helper()
	list, err := b.link.Processes(b.context())
	if err != nil {
		b.tb.Fatal(err)
	}
	byCall := map[string][]ProcessInfo{}
	for _, p := range list.Processes {
		byCall[p.Call] = append(byCall[p.Call], p)
	}
	return byCall
}

func setReadDeadline(tb testing.TB, f interface{ SetReadDeadline(time.Time) error }, when time.Time) {
	tb.Helper()
	if err := f.SetReadDeadline(when); err != nil {
		tb.Fatal(err)
	}
}

// eventually polls until ok.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			tb.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// hostProcess is a process of the container as the host sees it.
type hostProcess struct {
	pid, ppid, inside int
	uid               int
	zombie            bool
	name              string
}

// hostProcesses are the processes in init's pid namespace.
func (b *box) hostProcesses() []hostProcess {
	b.tb.Helper()
	want, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", b.pid))
	if err != nil {
		return nil // init is gone, and the kernel has ended all others
	}
	paths, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		b.tb.Fatal(err)
	}
	var found []hostProcess
	for _, path := range paths {
		status, err := os.ReadFile(path)
		if ns, _ := os.Readlink(filepath.Dir(path) + "/ns/pid"); err != nil || ns != want && ns != "" {
			continue
		}
		if p, ok := parseStatus(string(status)); ok {
			found = append(found, p)
		}
	}
	return found
}

// parseStatus parses /proc/PID/status; false for a process that is in no pid
// namespace below ours.
func parseStatus(status string) (p hostProcess, ok bool) {
	fields := map[string][]string{}
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		fields[key] = strings.Fields(value)
	}
	if len(fields["NSpid"]) < 2 {
		return p, false
	}
	p.name = strings.Join(fields["Name"], " ")
	p.zombie = fields["State"][0] == "Z"
	_, err := fmt.Sscan(strings.Join([]string{fields["Pid"][0], fields["PPid"][0], fields["NSpid"][1], fields["Uid"][1]}, " "),
		&p.pid, &p.ppid, &p.inside, &p.uid)
	return p, err == nil
}

// programs counts the processes of the programs' uid.
func (b *box) programs() int {
	return len(slices.DeleteFunc(b.hostProcesses(), func(p hostProcess) bool { return p.uid != hostUID }))
}

// parentOnHost is the number of the shim above a program, on the host.
func (b *box) parentOnHost(p *Process) int {
	b.tb.Helper()
	for _, h := range b.hostProcesses() {
		if h.inside == p.PID {
			return h.ppid
		}
	}
	b.tb.Fatal("the program is not there")
	return 0
}
