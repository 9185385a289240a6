package podman

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

// connection is the way to one Podman service.
type connection struct {
	socket  string
	version version         // of the service
	owner   uint32          // uid that the service runs as
	service *service        // nil when the service is not ours
	client  *http.Client    // with our transport
	ctx     context.Context // the library's, with the connection in it
}

// dialTimeout bounds everything about a socket that somebody else listens on.
const dialTimeout = 5 * time.Second

// connect finds a service. A socket that was named must work; those that are
// only usual places are passed over, with the reason kept for the end.
func connect(ctx context.Context, o Options, log *slog.Logger) (*connection, error) {
	if named := firstSet(o.URL, os.Getenv("CONTAINER_HOST")); named != "" {
		socket, err := socketOf(named)
		if err != nil {
			return nil, err
		}
		return join(ctx, &connection{socket: socket})
	}
	var passed error
	for _, socket := range usualSockets() {
		c, err := join(ctx, &connection{socket: socket})
		if err == nil {
			return c, nil
		}
		if contract.CodeOf(err) == contract.PodmanUnsupportedVersion {
			return nil, err
		}
		log.Debug("podman socket passed over", "socket", socket, "err", err)
		if !errors.Is(err, fs.ErrNotExist) {
			passed = err
		}
	}
	c, err := startOwn(ctx, o.RuntimeDir, log)
	if err != nil && passed != nil {
		return nil, contract.AsError(passed)
	}
	return c, err
}

// startOwn starts a service of ours and connects to it.
func startOwn(ctx context.Context, dir string, log *slog.Logger) (*connection, error) {
	svc, err := newService(dir, log)
	if err != nil {
		return nil, err
	}
	c, err := join(ctx, &connection{socket: svc.socket, service: svc})
	if err != nil {
		if stopErr := svc.stop(); stopErr != nil {
			log.Warn("the podman service could not be ended", "err", stopErr)
		}
		return nil, err
	}
	return c, nil
}

func firstSet(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// usualSockets are the places where Podman's socket units listen.
func usualSockets() []string {
	var sockets []string
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
		sockets = append(sockets, filepath.Join(dir, "podman/podman.sock"))
	}
	return append(sockets, "/run/podman/podman.sock")
}

// socketOf takes the path from a unix URL and refuses all others: realm binds
// directories of this machine and reads its kernel.
func socketOf(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Scheme == "":
		return "", contract.Errorf(contract.PodmanUnavailable, "the engine's address is not a URL").
			WithHint("give it as unix:///run/podman/podman.sock")
	case u.Scheme != "unix":
		return "", contract.Errorf(contract.PodmanUnavailable, "the engine is remote: only unix sockets of this machine can be used").
			WithHint("unset CONTAINER_HOST, or give --podman unix:///run/podman/podman.sock")
	case u.Host != "" || !filepath.IsAbs(u.Path):
		return "", contract.Errorf(contract.PodmanUnavailable, "the engine's socket is not an absolute path").
			WithHint("give it as unix:///run/podman/podman.sock")
	}
	return filepath.Clean(u.Path), nil
}

// join connects c to its socket: it starts an own service, checks that the
// listener is on our side of every namespace, and its version.
func join(ctx context.Context, c *connection) (*connection, error) {
	c.client = newClient(c.dial)
	probe, err := c.dial(ctx)
	if err != nil {
		return nil, contract.Errorf(contract.PodmanUnavailable, "no engine listens on the socket that was named").WithCause(err).
			WithHint("start its service (systemctl --user start podman.socket), or leave the address out: realm starts one itself")
	}
	c.owner, err = checkPeer(probe)
	probe.Close()
	if err != nil {
		return nil, err
	}
	if c.version, err = ping(ctx, c.client); err != nil {
		return nil, err
	}
	if err := c.version.gate(); err != nil {
		return nil, err
	}
	// The library's context must live as long as the Engine, not as this call.
	c.ctx, err = library(context.WithoutCancel(ctx), c.socket, c.client)
	if err != nil {
		return nil, contract.Errorf(contract.PodmanUnavailable, "the engine does not speak Podman's protocol").WithCause(err)
	}
	return c, nil
}

// dial connects to the socket. An own service that is not there is started:
// it ends by itself when nobody needs it.
func (c *connection) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err == nil || c.service == nil {
		return conn, err
	}
	if err := c.service.ensure(ctx); err != nil {
		return nil, err
	}
	return d.DialContext(ctx, "unix", c.socket)
}

func (c *connection) close() error {
	c.client.CloseIdleConnections()
	if c.service == nil {
		return nil
	}
	return c.service.stop()
}

// rootless says whether the service is some user's own.
func (c *connection) rootless() bool { return c.owner != 0 }

// ping asks the engine who it is, before the library does: the library tells no
// version of an engine that it refuses.
func ping(ctx context.Context, client *http.Client) (version, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://d/_ping", nil)
	if err != nil {
		return version{}, contract.AsError(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return version{}, contract.Errorf(contract.PodmanUnavailable, "the engine does not answer").WithCause(err)
	}
	defer resp.Body.Close()
	v, ok := parseVersion(resp.Header.Get("Libpod-Api-Version"))
	if resp.StatusCode != http.StatusOK || !ok {
		return version{}, contract.Errorf(contract.PodmanUnavailable, "what listens on the engine's socket is not Podman").
			WithHint("%s", installHint)
	}
	return v, nil
}

// checkPeer returns the uid of the socket's listener after making sure that its
// pids and paths are ours.
func checkPeer(conn net.Conn) (uint32, error) {
	elsewhere := func(what string) error {
		return contract.Errorf(contract.PodmanUnavailable, "the engine is %s", what).
			WithHint("run realm where the engine runs")
	}
	cred, err := peerCred(conn)
	if err != nil {
		return 0, contract.Errorf(contract.PodmanUnavailable, "the engine's socket does not say who listens").WithCause(err)
	}
	if cred.Pid <= 0 {
		return 0, elsewhere("in another pid namespace")
	}
	if self := uint32(os.Getuid()); cred.Uid != self {
		return 0, elsewhere("another user's; realm and its engine must run as the same user")
	}
	proc := filepath.Join("/proc", strconv.Itoa(int(cred.Pid)))
	if nested, err := inNestedPidNamespace(filepath.Join(proc, "status")); err != nil || nested {
		return 0, elsewhere("in another pid namespace")
	}
	// A rootless service has a mount namespace of its own with the same tree in
	// it, so what is compared is what the two see.
	if err := sameFile("/", filepath.Join(proc, "root")); err != nil {
		return 0, elsewhere("in another mount namespace")
	}
	return cred.Uid, nil
}

func peerCred(conn net.Conn) (*unix.Ucred, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a unix connection")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(err, credErr)
}

// inNestedPidNamespace reads whether a process has a pid besides the one that we
// see it under.
func inNestedPidNamespace(status string) (bool, error) {
	data, err := os.ReadFile(status)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(string(data)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(pids)) != 1, nil
		}
	}
	return false, fmt.Errorf("no NSpid")
}

// sameFile fails unless a and b are one file.
func sameFile(a, b string) error {
	x, err := os.Stat(a)
	if err != nil {
		return err
	}
	y, err := os.Stat(b)
	if err != nil {
		return err
	}
	if !os.SameFile(x, y) {
		return fmt.Errorf("not the same file")
	}
	return nil
}

const installHint = "install Podman 5 (apt install podman, dnf install podman, pacman -S podman), or start its service"
