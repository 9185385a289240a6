package workspace

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container"
)

// TestMain makes the test binary every process that the tests need: the
// helper, a box, and a caller without privileges.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case HelperArg:
			os.Exit(HelperMain(os.Args[2:]))
		case "_box":
			fmt.Fprintln(os.Stderr, boxMain(os.Args[2]))
			os.Exit(1)
		case "_call":
			os.Exit(callMain(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// box is what a container is for the mounts: a process with a root directory
// and a mount namespace of its own that has the plan's binds, and a shell in it.
type box struct {
	t     *testing.T
	pid   int
	in    *os.File
	out   *bufio.Reader
	count int
}

// startBox skips the test where namespaces cannot be made. uid 0 makes a box as
// rootful Podman would, another one a box with a user namespace of that user's.
func startBox(t *testing.T, p *Plan, uid int) *box {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes mounts")
	}
	dir := worldDir(t)
	plan, err := json.Marshal(boxPlan{Root: filepath.Join(dir, "root"), Binds: append([]container.Bind{p.Workspace}, p.Binds()...)})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "root"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "plan.json")
	if err := os.WriteFile(file, plan, 0o644); err != nil {
		t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "_box", file)
	cmd.Stdin, cmd.Stderr = inR, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: true}
		cmd = exec.Command("/proc/self/exe", "_call", strconv.Itoa(uid), "box", file)
		cmd.Stdin, cmd.Stderr = inR, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	inR.Close()
	t.Cleanup(func() {
		inW.Close()
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	b := &box{t: t, in: inW, out: bufio.NewReader(stdout)}
	b.pid, err = strconv.Atoi(b.run("echo $BOXPID"))
	if err != nil {
		t.Skipf("the box did not start: %v", err)
	}
	return b
}

// worldDir is a directory that any user may enter.
func worldDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "box")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a command line in the box's shell and returns what it printed.
func (b *box) run(line string) string {
	b.t.Helper()
	b.count++
	mark := fmt.Sprintf("--%d--", b.count)
	if _, err := fmt.Fprintf(b.in, "{ %s\n} 2>&1; echo %s\n", line, mark); err != nil {
		b.t.Fatal(err)
	}
	var out strings.Builder
	for {
		s, err := b.out.ReadString('\n')
		if err != nil {
			b.t.Fatalf("the box ended: %v", err)
		}
		if strings.TrimSuffix(s, "\n") == mark {
			return strings.TrimRight(out.String(), "\n")
		}
		if before, ok := strings.CutSuffix(s, mark+"\n"); ok {
			return out.String() + before
		}
		out.WriteString(s)
	}
}

// fails wants a command to fail and print what.
func (b *box) fails(line, what string) {
	b.t.Helper()
	if out := b.run(line + " && echo WORKED"); strings.HasSuffix(out, "WORKED") || !strings.Contains(out, what) {
		b.t.Errorf("%s: printed %q, want a failure with %q", line, out, what)
	}
}

func (b *box) works(line string) string {
	b.t.Helper()
	out := b.run(line + " && echo WORKED")
	rest, ok := strings.CutSuffix(out, "WORKED")
	if !ok {
		b.t.Errorf("%s: failed: %q", line, out)
	}
	return strings.TrimRight(rest, "\n")
}

type boxPlan struct {
	Root  string
	Binds []container.Bind
}

// boxMain is the first process of a box. It becomes a shell.
func boxMain(file string) error {
	var p boxPlan
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &p)
	}
	if err != nil {
		return err
	}
	// The number of this process outside: /proc is still that of the outer namespace.
	outer, err := os.Readlink("/proc/self")
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private: %w", err)
	}
	if err := unix.Mount("tmpfs", p.Root, "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("tmpfs: %w", err)
	}
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc", "/dev"} {
		if _, err := os.Stat(dir); err == nil {
			if err := boxBind(p.Root, container.Bind{Source: dir, Destination: dir, Write: true}, unix.MS_REC); err != nil {
				return err
			}
		}
	}
	for _, b := range p.Binds {
		if err := boxBind(p.Root, b, 0); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/proc", "/old"} {
		if err := os.MkdirAll(p.Root+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", p.Root+"/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if err := unix.PivotRoot(p.Root, p.Root+"/old"); err != nil {
		return fmt.Errorf("pivot: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Exec("/bin/sh", []string{"sh"}, []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/", "BOXPID=" + outer})
}

func boxBind(root string, b container.Bind, flags uintptr) error {
	fi, err := os.Stat(b.Source)
	if err != nil {
		return err
	}
	dst := root + b.Destination
	if _, err := os.Lstat(dst); err != nil {
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return err
		}
		if fi.IsDir() {
			err = os.Mkdir(dst, 0o755)
		} else {
			err = os.WriteFile(dst, nil, 0o644)
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Mount(b.Source, dst, "", unix.MS_BIND|flags, ""); err != nil {
		return fmt.Errorf("bind %s: %w", b.Destination, err)
	}
	if b.Write {
		return nil
	}
	if err := unix.Mount("", dst, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("read-only %s: %w", b.Destination, err)
	}
	return nil
}

// callMain does something as another user: `_call UID box FILE`, `_call UID rebind PLAN PID DEST`.
func callMain(args []string) int {
	uid, _ := strconv.Atoi(args[0])
	if os.Geteuid() == 0 {
		cmd := exec.Command("/proc/self/exe", append([]string{"_call"}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Pdeathsig: syscall.SIGKILL}
		return exitCode(cmd.Run())
	}
	if args[1] == "box" {
		cmd := exec.Command("/proc/self/exe", "_box", args[2])
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID,
			UidMappings: id, GidMappings: id, Pdeathsig: syscall.SIGKILL,
		}
		return exitCode(cmd.Run())
	}
	p := &Plan{}
	data, err := os.ReadFile(args[2])
	if err == nil {
		err = json.Unmarshal(data, p)
	}
	pid, _ := strconv.Atoi(args[3])
	var out Rebound
	if err == nil {
		for _, m := range p.Mounts {
			if m.Destination == args[4] {
				out, err = p.Rebind(context.Background(), pid, Lost{Mount: m})
			}
		}
	}
	if err != nil {
		fmt.Println(err, errorsCause(err))
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	return 0
}

func errorsCause(err error) error {
	if u, ok := err.(interface{ Unwrap() error }); ok {
		return u.Unwrap()
	}
	return nil
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
