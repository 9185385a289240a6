package term

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"
)

// IsTerminal reports whether v is an open terminal, and returns it as a file.
// Streams of other types are never terminals.
func IsTerminal(v any) (*os.File, bool) {
	f, ok := v.(*os.File)
	if !ok || f == nil || !xterm.IsTerminal(int(f.Fd())) {
		return nil, false
	}
	return f, true
}

// Size is that of a terminal, in characters.
type Size struct{ Rows, Cols uint16 }

// SizeOf returns the size of the terminal f.
func SizeOf(f *os.File) (Size, error) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return Size{}, os.NewSyscallError("TIOCGWINSZ", err)
	}
	return Size{Rows: w.Row, Cols: w.Col}, nil
}

// Raw is a terminal in raw mode. While it lasts, a guard process stands by that
// undoes it when this process ends without having called Restore: by a panic on
// any goroutine, or by SIGKILL.
type Raw struct {
	tty   *os.File
	saved unix.Termios
	guard *guard

	mu       sync.Mutex
	restored bool
}

// MakeRaw puts tty in raw mode. GuardMain must be called first thing in main.
func MakeRaw(tty *os.File) (*Raw, error) {
	saved, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
	if err != nil {
		return nil, os.NewSyscallError("TCGETS", err)
	}
	r := &Raw{tty: tty, saved: *saved}
	if r.guard, err = startGuard(tty, r.saved); err != nil {
		return nil, err
	}
	if err := r.apply(); err != nil {
		r.guard.dismiss()
		return nil, err
	}
	return r, nil
}

func (r *Raw) apply() error {
	_, err := xterm.MakeRaw(int(r.tty.Fd()))
	return err
}

// Again puts the terminal back in raw mode after the process was suspended and
// a shell used the terminal. It does nothing once restored.
func (r *Raw) Again() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restored {
		return nil
	}
	return r.apply()
}

// Restore gives the terminal back as it was found. Only the first call acts.
func (r *Raw) Restore() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.restored {
		return nil
	}
	r.restored = true
	err := setTermios(r.tty, r.saved)
	r.guard.dismiss()
	return err
}

// setTermios does not wait until what was written has been shown (a terminal
// that is not read would never show it). From a background process it would be
// stopped by SIGTTOU, so that is blocked: giving the terminal back must not wait
// for a person.
func setTermios(tty *os.File, t unix.Termios) error {
	return withoutTTOU(func() error {
		return os.NewSyscallError("TCSETS", unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, &t))
	})
}
