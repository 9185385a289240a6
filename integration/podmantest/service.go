package podmantest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	serviceStart = 30 * time.Second
	serviceStop  = 10 * time.Second
)

// Service starts a Podman API service of its own for the test and returns its
// address, unix://…; the service ends with the test, and with the test binary.
// env is added to its environment (for example CONTAINERS_CONF=…).
func Service(t testing.TB, env ...string) string {
	t.Helper()
	facts := Require(t)
	// Not t.TempDir: its names are longer than a socket address may be.
	dir, err := os.MkdirTemp("", "podman")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s.sock")

	var stderr bytes.Buffer
	cmd := exec.Command(facts.Binary, "system", "service", "--time=0", "unix://"+socket)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &stderr
	// A group of its own: an interrupt typed at the terminal is for the test,
	// which then ends the service. Pdeathsig is for a test that was killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() { stop(t, cmd, exited) })

	for deadline := time.Now().Add(serviceStart); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			conn.Close()
			return "unix://" + socket
		}
		select {
		case <-exited:
			t.Fatalf("podman system service ended: %s", stderr.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("podman system service does not answer: %v", err)
		}
	}
}

func stop(t testing.TB, cmd *exec.Cmd, exited <-chan struct{}) {
	t.Helper()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-exited:
	case <-time.After(serviceStop):
		_ = cmd.Process.Kill()
		<-exited
	}
}
