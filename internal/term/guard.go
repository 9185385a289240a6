package term

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardName is the first argument of a guard process.
const guardName = "_terminal-guard"

// guard is the process that restores a terminal when this one dies. It holds
// the read end of a pipe whose write end dies with us.
type guard struct {
	cmd  *exec.Cmd
	life *os.File
}

// startGuard does not wait until the guard is up: what it needs is in the pipe.
func startGuard(tty *os.File, saved unix.Termios) (*guard, error) {
	state, err := json.Marshal(saved)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", guardName)
	cmd.Stdin = tty
	cmd.ExtraFiles = []*os.File{r}
	cmd.Env = []string{}
	// A session of its own: no signal from the terminal, no SIGHUP when it closes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return nil, fmt.Errorf("start the terminal guard: %w", err)
	}
	g := &guard{cmd: cmd, life: w}
	if _, err := w.Write(append(state, '\n')); err != nil {
		g.dismiss()
		return nil, fmt.Errorf("talk to the terminal guard: %w", err)
	}
	return g, nil
}

// dismiss ends the guard without letting it act.
func (g *guard) dismiss() {
	_, _ = g.life.Write([]byte("\n"))
	_ = g.life.Close()
	timer := time.AfterFunc(time.Second, func() { _ = g.cmd.Process.Kill() })
	defer timer.Stop()
	_ = g.cmd.Wait()
}

// GuardMain is the guard process. It reports whether args were a guard's, in
// which case it has done its work and the process must exit.
func GuardMain(args []string) bool {
	if len(args) != 1 || args[0] != guardName {
		return false
	}
	guardTerminal(os.Stdin, os.NewFile(3, "life"))
	return true
}

// guardTerminal waits for the end of life, which is all there is to read after
// the state's line. A byte more means that the owner has restored the terminal.
func guardTerminal(tty, life *os.File) {
	var saved unix.Termios
	dec := json.NewDecoder(life)
	if dec.Decode(&saved) != nil {
		return
	}
	rest, err := io.ReadAll(io.MultiReader(dec.Buffered(), life))
	if err == nil && len(rest) == 1 {
		_ = setTermios(tty, saved)
	}
}

// withoutTTOU runs f on a thread on which SIGTTOU is blocked.
func withoutTTOU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	const bit = uint(syscall.SIGTTOU) - 1
	block.Val[bit/64] |= 1 << (bit % 64)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return f()
}
