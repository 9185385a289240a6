package podman

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

const (
	// serviceIdle is the seconds without a client after which the service ends
	// by itself: also when realm was killed.
	serviceIdle = "30"
	// serviceStart bounds the time to the first answer. A cold rootless start
	// makes a user namespace and a storage first.
	serviceStart = 20 * time.Second
	// serviceStop bounds the time that the service has to end by itself.
	serviceStop = 5 * time.Second
	// maxSocketPath is what the kernel takes for a socket's path.
	maxSocketPath = 107
	servicePrefix = "podman-"
)

// service is a `podman system service` of ours: a child with its own
// configuration, that ends when nobody needs it and when we end.
type service struct {
	dir    string // private; everything below is the service's
	socket string
	binary string
	log    *slog.Logger
	lock   *os.File // held as long as dir is in use

	confDigest string // of the user's settings that it has taken over

	mu   sync.Mutex    // guards what follows, and starting
	proc *os.Process   // nil when not running
	done chan struct{} // closed when proc has ended
	over bool          // stopped for good
}

// newService prepares a service below runtimeDir; ensure starts it.
func newService(runtimeDir string, log *slog.Logger) (*service, error) {
	binary, err := exec.LookPath("podman")
	if err != nil {
		return nil, contract.Errorf(contract.PodmanUnavailable, "no Podman service listens and no podman command is installed").
			WithCause(err).WithHint("%s", installHint)
	}
	failed := func(err error) (*service, error) {
		return nil, contract.Errorf(contract.PodmanUnavailable, "the files of a Podman service could not be made").WithCause(err)
	}
	// Under one lock, so that no directory is seen before its own lock is held.
	all, err := lockAll(runtimeDir)
	if err != nil {
		return failed(err)
	}
	defer all.Close()
	removeDead(runtimeDir)
	dir, err := os.MkdirTemp(runtimeDir, servicePrefix)
	if err != nil {
		return failed(err)
	}
	s := &service{dir: dir, socket: filepath.Join(dir, "s"), binary: binary, log: log}
	if len(s.socket) > maxSocketPath {
		err = errors.New("the path of the socket is too long")
	}
	if err == nil {
		s.lock, err = lockDir(dir)
	}
	if err == nil {
		s.confDigest, err = writeConf(dir)
	}
	if err != nil {
		return failed(errors.Join(err, os.RemoveAll(dir)))
	}
	return s, nil
}

// lockDir marks dir as used by a living process.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockAll keeps those apart who make and who remove directories below dir.
func lockAll(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeDead removes what services of killed realms have left. Preconditions:
// lockAll is held.
func removeDead(runtimeDir string) {
	dirs, _ := filepath.Glob(filepath.Join(runtimeDir, servicePrefix+"*"))
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			continue
		}
		if lock, err := lockDir(dir); err == nil {
			os.RemoveAll(dir)
			lock.Close()
		}
	}
}

// ensure starts the service if it does not run, and returns when it listens.
func (s *service) ensure(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return contract.Errorf(contract.PodmanUnavailable, "the engine is closed")
	}
	if s.running() {
		// It may be on its way out, idle or killed, and then a new one is due.
		err := s.awaitSocket(ctx)
		if s.running() {
			return err
		}
	}
	proc, done, err := s.spawn()
	if err != nil {
		return contract.Errorf(contract.PodmanUnavailable, "the Podman service could not be started").WithCause(err)
	}
	s.proc, s.done = proc, done
	return s.awaitSocket(ctx)
}

func (s *service) running() bool {
	if s.proc == nil {
		return false
	}
	select {
	case <-s.done:
		return false
	default:
		return true
	}
}

// spawn starts the process. It gets no parent-death signal: one that is told to
// end in the middle of a removal keeps the container's lock until its idle timer
// runs out, and whoever removes the container next waits those 30 seconds. Left
// alone it ends what it does, and then itself by that timer.
func (s *service) spawn() (*os.Process, chan struct{}, error) {
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	cmd := exec.Command(s.binary, "--log-level=error", "--default-mounts-file="+filepath.Join(s.dir, noMountsName),
		"system", "service", "--time="+serviceIdle, "unix://"+s.socket)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	cmd.Env = serviceEnv(os.Environ(), filepath.Join(s.dir, confName))
	// Its own session: a terminal's signals are for realm, which ends it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	done := make(chan struct{})
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return cmd.Process, done, nil
}

// awaitSocket polls until the service takes connections.
func (s *service) awaitSocket(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serviceStart)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("unix", s.socket); err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-s.done:
			return contract.Errorf(contract.PodmanUnavailable, "the Podman service ended at once").
				WithCause(errors.New(s.tail())).WithHint("run podman info to see why; run realm doctor")
		case <-ctx.Done():
			return contract.Errorf(contract.PodmanUnavailable, "the Podman service did not answer in time").WithCause(context.Cause(ctx))
		}
	}
}

// tail is the end of what the service wrote, for logs.
func (s *service) tail() string {
	const most = 4096
	data, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return strings.TrimSpace(string(data[max(0, len(data)-most):]))
}

// stop ends the service for good and removes what it had. Containers go on.
func (s *service) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil
	}
	s.over = true
	if s.running() {
		_ = s.proc.Signal(syscall.SIGTERM)
		select {
		case <-s.done:
		case <-time.After(serviceStop):
			_ = s.proc.Kill()
			<-s.done
		}
	}
	err := errors.Join(os.RemoveAll(s.dir), s.lock.Close())
	if err != nil {
		return contract.Errorf(contract.Internal, "the files of the Podman service could not be removed").WithCause(err)
	}
	return nil
}

// serviceEnv is the environment of our own service: ours, without what would
// change what it does to containers or where it listens.
func serviceEnv(environ []string, conf string) []string {
	env := []string{"CONTAINERS_CONF=" + conf}
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		switch {
		case strings.HasPrefix(name, "PODMAN_"), strings.HasPrefix(name, "CONTAINER_"), strings.HasPrefix(name, "LISTEN_"):
		case name == "CONTAINERS_CONF", name == "CONTAINERS_CONF_OVERRIDE", name == "NOTIFY_SOCKET":
		case strings.HasPrefix(name, "_CONTAINERS_"), strings.HasPrefix(name, "_PODMAN_"):
		case name == "TMPDIR": // crun makes mount points there as the container's root, who may not enter a private one
		default:
			env = append(env, e)
		}
	}
	return env
}
