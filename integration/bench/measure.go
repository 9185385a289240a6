package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"realm.dev/container/podman"
	"realm.dev/contract"
	"realm.dev/policy"
	"realm.dev/realm"
	"realm.dev/realm/client"
)

// bench holds one realm with one session, and a plain container beside it.
type bench struct {
	bin, dir, rootfs string
	service          *exec.Cmd
	mgr              *realm.Manager
	sess             *realm.Session
	client           *client.Client
	rest             *rest
	compiled         *policy.Compiled
	rows             []row
}

const plain = "realm-bench-plain"

func newBench(ctx context.Context, bin string) (*bench, error) {
	dir, err := os.MkdirTemp("", "realm-bench-")
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	b := &bench{bin: abs, dir: dir, rootfs: filepath.Join(dir, "root")}
	for _, step := range []func(context.Context) error{b.startService, b.openRealm, b.startPlain} {
		if err := step(ctx); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

// startService runs the one Podman service that realm and the baseline share.
func (b *bench) startService(ctx context.Context) error {
	sock := filepath.Join(b.dir, "podman.sock")
	b.service = exec.Command("podman", "system", "service", "--time=0", "unix://"+sock)
	if err := b.service.Start(); err != nil {
		return err
	}
	b.rest = newREST(sock)
	for range 200 {
		if b.rest.do(ctx, "GET", "/version", nil, nil) == nil {
			return os.Setenv("CONTAINER_HOST", "unix://"+sock)
		}
		time.Sleep(25 * time.Millisecond)
	}
	return fmt.Errorf("the Podman service did not answer")
}

func (b *bench) openRealm(ctx context.Context) error {
	dirs := realm.Dirs{State: filepath.Join(b.dir, "state"), Runtime: filepath.Join(b.dir, "run")}
	if err := os.MkdirAll(dirs.Runtime, 0o700); err != nil {
		return err
	}
	eng, err := podman.Open(ctx, podman.Options{RuntimeDir: dirs.Runtime})
	if err != nil {
		return err
	}
	b.mgr, err = realm.Open(ctx, realm.Options{Dirs: dirs, Engine: eng, InitBinary: filepath.Join(b.bin, "realm-init")})
	if err != nil {
		return err
	}
	doc, err := policy.Load([]byte("mode: workspace-write\nallowShell: true\n"), policy.FormatYAML)
	if err != nil {
		return err
	}
	if b.compiled, err = policy.Compile(doc); err != nil {
		return err
	}
	if err := os.Mkdir(b.workspace(), 0o755); err != nil {
		return err
	}
	if b.sess, err = b.newSession(ctx); err != nil {
		return err
	}
	b.client, err = client.Dial(b.sess.Record().ControlSocketPath)
	return err
}

func (b *bench) workspace() string { return filepath.Join(b.dir, "ws") }

func (b *bench) newSession(ctx context.Context) (*realm.Session, error) {
	s, err := b.mgr.Create(ctx, realm.Request{Policy: b.compiled, Workspace: b.workspace(), AllowUnenforced: []string{"memory"}})
	if err != nil {
		return nil, err
	}
	return s, s.WaitReady(ctx)
}

// startPlain makes the container that the baseline runs its programs in.
func (b *bench) startPlain(ctx context.Context) error {
	for _, d := range []string{"usr", "proc", "sys", "dev", "tmp", "run", "etc"} {
		if err := os.MkdirAll(filepath.Join(b.rootfs, d), 0o755); err != nil {
			return err
		}
	}
	for _, l := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+l, filepath.Join(b.rootfs, l)); err != nil {
			return err
		}
	}
	return b.rest.start(ctx, plain, b.rootfs, []string{"/usr/bin/sleep", "infinity"})
}

func (b *bench) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if b.rest != nil {
		_ = b.rest.remove(ctx, plain)
	}
	if b.mgr != nil {
		_ = b.mgr.Close(ctx)
	}
	if b.service != nil && b.service.Process != nil {
		_ = b.service.Process.Signal(os.Interrupt)
		_ = b.service.Wait()
	}
	_ = os.RemoveAll(b.dir)
}

// call runs a program over the control socket, as an orchestrator does.
func (b *bench) call(ctx context.Context, argv ...string) (contract.ToolResult, error) {
	res, err := b.client.Call(ctx, &contract.ToolCall{Exec: &contract.ExecCall{Argv: argv}}, client.CallOptions{})
	if err == nil && res.Error != nil {
		err = res.Error
	}
	return res, err
}

func (b *bench) execLatency(ctx context.Context, n int) error {
	t, err := interleave(n,
		func() error { _, err := b.call(ctx, "true"); return err },
		func() error { return exec.Command("true").Run() })
	if err != nil {
		return err
	}
	r, err := interleave(max(n/20, 5), func() error { return b.rest.exec(ctx, plain, "true") })
	if err != nil {
		return err
	}
	b.atMost("exec true, control socket, p50", t[0], t[1], "host fork+exec", 2.5)
	b.atLeast("the same against REST exec", ms(t[0]), "REST exec "+ms(r[0]), float64(r[0])/float64(t[0]), 40)
	return nil
}

// execThroughput counts calls per second of 16 callers.
func (b *bench) execThroughput(ctx context.Context, n int) error {
	const callers = 16
	rate := func(total int, f func() error) (float64, error) {
		var wg sync.WaitGroup
		errs := make(chan error, callers)
		began := time.Now()
		for range callers {
			wg.Go(func() {
				for range total / callers {
					if err := f(); err != nil {
						errs <- err
						return
					}
				}
			})
		}
		wg.Wait()
		close(errs)
		return float64(total/callers*callers) / time.Since(began).Seconds(), <-errs
	}
	ours, err := rate(n*8, func() error { _, err := b.call(ctx, "true"); return err })
	if err != nil {
		return err
	}
	theirs, err := rate(max(n/4, 32), func() error { return b.rest.exec(ctx, plain, "true") })
	if err != nil {
		return err
	}
	b.atLeast("16 callers", fmt.Sprintf("%.0f calls/s", ours), fmt.Sprintf("REST exec %.0f calls/s", theirs), ours/theirs, 30)
	return nil
}

// stdoutRate prints 100 MiB, which realm keeps whole in a spill file with its
// hash, against a host pipe that is thrown away.
func (b *bench) stdoutRate(ctx context.Context, _ int) error {
	const size = 100 << 20
	argv := []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}
	t, err := interleave(7,
		func() error {
			res, err := b.call(ctx, argv...)
			if err == nil && res.Exec.Stdout.Bytes != size {
				err = fmt.Errorf("kept %d bytes", res.Exec.Stdout.Bytes)
			}
			return err
		},
		func() error {
			cmd := exec.Command(argv[0], argv[1:]...)
			out, err := cmd.StdoutPipe()
			if err != nil {
				return err
			}
			if err := cmd.Start(); err != nil {
				return err
			}
			if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 128<<10)); err != nil {
				return err
			}
			return cmd.Wait()
		})
	if err != nil {
		return err
	}
	rate := func(d time.Duration) string { return fmt.Sprintf("%.0f MiB/s", 100/d.Seconds()) }
	b.atLeast("100 MiB of stdout, kept", rate(t[0]), "host pipe "+rate(t[1]), float64(t[1])/float64(t[0]), 0.5)
	return nil
}

// runWall compares whole commands.
func (b *bench) runWall(_ context.Context, n int) error {
	n = max(n/10, 10)
	ours := func(env ...string) func() error {
		return func() error {
			cmd := exec.Command(filepath.Join(b.bin, "realm"), "run", "--allow-unenforced", "memory", "--workspace", b.workspace(), "--", "true")
			cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+b.dir+"/cli", "XDG_RUNTIME_DIR="+b.dir+"/cli-run"), env...)
			return loud(cmd)
		}
	}
	theirs := func() error {
		return loud(exec.Command("podman", "run", "--rm", "--network", "none", "--cap-drop", "all", "--security-opt", "no-new-privileges",
			"--read-only", "-v", "/usr:/usr:ro", "-v", b.workspace()+":"+b.workspace(), "--rootfs", b.rootfs, "true"))
	}
	for _, d := range []string{"/cli", "/cli-run"} {
		if err := os.MkdirAll(b.dir+d, 0o700); err != nil {
			return err
		}
	}
	t, err := interleave(n, ours(), theirs, ours("CONTAINER_HOST="))
	if err != nil {
		return err
	}
	b.atMost("realm run -- true, service listening", t[0], t[1], "podman run --rm", 1.1)
	b.atMost("realm run -- true, starts the service", t[2], t[1], "podman run --rm", 1.8)
	return nil
}

func loud(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// sessionStart measures one session more in a manager that is up.
func (b *bench) sessionStart(ctx context.Context, n int) error {
	i := 0
	var ended []func() error
	t, err := interleave(max(n/10, 10),
		func() error {
			s, err := b.newSession(ctx)
			if err == nil {
				ended = append(ended, func() error { _, err := s.Stop(ctx, 0); return err })
			}
			return err
		},
		func() error {
			i++
			name := fmt.Sprintf("%s-%d", plain, i)
			ended = append(ended, func() error { return b.rest.remove(ctx, name) })
			return b.rest.start(ctx, name, b.rootfs, []string{"/usr/bin/sleep", "infinity"})
		})
	for _, end := range ended {
		if e := end(); err == nil {
			err = e
		}
	}
	if err != nil {
		return err
	}
	b.atMost("a session more, create to ready", t[0], t[1], "API create+start", 1.3)
	return nil
}

// idleMemory reads what one idle session costs: the proportional set size of its
// PID 1 and subreapers, and this process's growth per session.
func (b *bench) idleMemory(ctx context.Context, _ int) error {
	const sessions = 8
	before := memory("self")
	var pss int64
	for range sessions {
		s, err := b.newSession(ctx)
		if err != nil {
			return err
		}
		defer func() { _, _ = s.Stop(ctx, 0) }()
		pids, err := b.containerPids(ctx, *s.Record().ContainerID)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			pss += memory(pid)
		}
	}
	per := (pss + memory("self") - before) / sessions
	const bar = 2560 << 10
	b.rows = append(b.rows, row{
		"idle session, PSS of init and realm's share", fmt.Sprintf("%.2f MiB", float64(per)/(1<<20)), "2.5 MiB",
		float64(per) / bar, "≤ 1.00", per <= bar,
	})
	return nil
}

// containerPids lists the processes of a container that are not the workload.
func (b *bench) containerPids(ctx context.Context, id string) ([]string, error) {
	var top struct{ Processes [][]string }
	if err := b.rest.do(ctx, "GET", "/containers/"+id+"/top?ps_args=hpid&stream=false", nil, &top); err != nil {
		return nil, err
	}
	var pids []string
	for _, p := range top.Processes {
		pids = append(pids, p[0])
	}
	return pids, nil
}

// memory is the proportional set size of a process in bytes; 0 when it is gone.
func memory(pid string) int64 {
	raw, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "Pss:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}
