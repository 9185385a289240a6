package pid1

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// shimName is the name of a shim in the process table.
const shimName = "realm-shim"

// shimSocket is where a shim finds its end of the socket pair.
const shimSocket = 3

// serveShim runs one call after the other until init closes the socket.
func serveShim() int {
	warmThreads(2)
	// File system ids are per thread, and all work is done by this one.
	runtime.LockOSThread()
	if err := harden(); err != nil {
		return fail("shim: " + err.Error())
	}
	name := []byte(shimName + "\x00") // the kernel's would be "exe"
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0); err != nil {
		return fail("shim: " + err.Error())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fail("shim: no subreaper: " + err.Error())
	}
	starter, err := newStarter()
	if err != nil {
		return fail("shim: " + err.Error())
	}
	conn, err := wire.NewConn(shimSocket)
	if err != nil {
		return fail("shim: " + err.Error())
	}
	if err := conn.Write(0, &wire.Idle{}); err != nil {
		return 0
	}
	for {
		f, err := conn.Read()
		if err != nil {
			return 0
		}
		var m wire.Exec
		if f.Type != wire.TypeExec || wire.DecodeInto(&m, f.Payload) != nil {
			return fail("shim: unexpected frame")
		}
		if err := runCall(conn, starter, f, &m); err != nil {
			return 0
		}
	}
}

// runCall runs one program, tells of its start and its end, and returns when
// nothing of it is left.
func runCall(conn *wire.Conn, st *starter, f wire.Frame, m *wire.Exec) error {
	p, failed := st.start(m, f.Files)
	wire.CloseFiles(f.Files)
	if failed != nil {
		return conn.Write(f.ID, failed.exited())
	}
	var files []int
	if p.master >= 0 {
		files = []int{p.master}
	}
	err := conn.Write(f.ID, &wire.Started{PID: uint32(p.pid)}, files...)
	wire.CloseFiles(files)
	if err != nil {
		return err
	}
	w, err := reapUntil(p.pid)
	if err != nil {
		return err
	}
	exited := w.exited()
	if !reapedAll() {
		exited.Background = background()
	}
	if err := conn.Write(f.ID, exited); err != nil || exited.Background == 0 {
		return err
	}
	if _, err := reapUntil(0); !errors.Is(err, unix.ECHILD) {
		return err
	}
	return conn.Write(f.ID, &wire.Idle{})
}

// reapUntil reaps children until pid is among them, or none is left.
func reapUntil(pid int) (waited, error) {
	for {
		var w waited
		got, err := unix.Wait4(-1, &w.status, 0, &w.usage)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got == pid {
			return w, err
		}
	}
}

// reapedAll reaps what has ended and says whether no child is left.
func reapedAll() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != unix.EINTR && pid <= 0 {
			return err == unix.ECHILD
		}
	}
}

// background counts what is left. There is a child, so it is never 0, even if
// the table cannot be read.
func background() uint32 {
	t, err := readTable()
	if err != nil {
		return 1
	}
	return uint32(max(1, t.count(unix.Getpid())))
}

// exited translates what the kernel says of the program's end.
func (w waited) exited() *wire.Exited {
	e := &wire.Exited{
		Outcome:    wire.OutcomeExited,
		UserMicros: uint64(w.usage.Utime.Nano() / 1000),
		SysMicros:  uint64(w.usage.Stime.Nano() / 1000),
		MaxRSS:     uint64(w.usage.Maxrss) << 10,
	}
	if w.status.Signaled() {
		e.Outcome, e.Signal = wire.OutcomeSignaled, uint8(w.status.Signal())
	} else {
		e.Code = uint8(w.status.ExitStatus())
	}
	return e
}
