package pid1

import (
	"errors"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// The phases of a start that can fail.
const (
	phaseCall       = "call"
	phaseSupervisor = "supervisor"
	phaseStdio      = "stdio"
	phaseHome       = "home"
	phaseCwd        = "cwd"
	phaseLookup     = "lookup"
	phaseRlimit     = "rlimit"
	phaseFork       = "fork"
	phaseExec       = "exec"
)

// failure says why a program could not be started.
type failure struct {
	phase string
	err   error
}

func (f *failure) exited() *wire.Exited {
	return &wire.Exited{Outcome: wire.OutcomeNotStarted, Phase: f.phase, Errno: uint32(errnoOf(f.err))}
}

// program is a program that runs; master is -1 without a pty.
type program struct{ pid, master int }

// starter starts programs for a shim.
type starter struct {
	adj       *os.File // /proc/self/oom_score_adj
	base      string
	setgroups bool
}

// programOOMAdj makes the OOM killer prefer any program to init and shims.
const programOOMAdj = "1000"

func newStarter() (*starter, error) {
	adj, err := os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	var buf [16]byte
	n, err := adj.ReadAt(buf[:], 0)
	if n == 0 {
		adj.Close()
		return nil, err
	}
	groups, err := os.ReadFile("/proc/self/setgroups")
	return &starter{
		adj:       adj,
		base:      strings.TrimSpace(string(buf[:n])),
		setgroups: err != nil || strings.TrimSpace(string(groups)) == "allow",
	}, nil
}

// start starts the program of m. stdio are the descriptors that came with it.
func (s *starter) start(m *wire.Exec, stdio []int) (program, *failure) {
	files, master, f := openStdio(m, stdio)
	if f != nil {
		return program{}, f
	}
	defer wire.CloseFiles(files.opened)
	var path string
	if f = asUser(m.UID, m.GID, func() *failure {
		path, f = prepare(m)
		return f
	}); f == nil {
		f = setRlimits(m.Rlimits)
	}
	if f == nil {
		var pid int
		if pid, f = s.fork(path, m, files.stdio); f == nil {
			return program{pid, master}, nil
		}
	}
	if master >= 0 {
		unix.Close(master)
	}
	return program{}, f
}

// fork starts path. The program inherits the OOM score of the moment: a write
// to the child's own would come too late for what it forks at once.
func (s *starter) fork(path string, m *wire.Exec, stdio []uintptr) (int, *failure) {
	if _, err := s.adj.WriteAt([]byte(programOOMAdj), 0); err != nil {
		return 0, &failure{phaseSupervisor, unix.EACCES}
	}
	pid, err := syscall.ForkExec(path, m.Argv, &syscall.ProcAttr{
		Dir:   m.Dir,
		Env:   m.Env,
		Files: stdio,
		Sys: &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: m.UID, Gid: m.GID, NoSetGroups: !s.setgroups},
			Setsid:     true,
			Setctty:    m.TTY,
		},
	})
	// Going back below what CAP_SYS_RESOURCE set once is refused; a shim that
	// stays at 1000 is still a shim.
	_, _ = s.adj.WriteAt([]byte(s.base), 0)
	switch {
	case err == nil:
		return pid, nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return 0, &failure{phaseFork, err}
	}
	return 0, &failure{phaseExec, err}
}

// asUser calls f with the file system ids of the program, so that the kernel
// answers as it would answer the program. Preconditions: the goroutine is
// locked to its thread.
func asUser(uid, gid uint32, f func() *failure) *failure {
	ownUID, ownGID := unix.Getuid(), unix.Getgid()
	setFSIDs(int(uid), int(gid))
	defer setFSIDs(ownUID, ownGID)
	if gotUID, gotGID := setFSIDs(-1, -1); gotUID != int(uid) || gotGID != int(gid) {
		return &failure{phaseSupervisor, unix.EPERM}
	}
	return f()
}

// setFSIDs sets the file system ids of the thread and returns the previous
// ones. The calls never return an error; an id of -1 only asks.
func setFSIDs(uid, gid int) (oldUID, oldGID int) {
	oldGID, _ = unix.SetfsgidRetGid(gid)
	oldUID, _ = unix.SetfsuidRetUid(uid)
	return oldUID, oldGID
}

// setRlimits lowers the limits of the shim, which the program inherits; init
// does not use this shim again. A limit of the address space would hit the
// shim's own runtime.
func setRlimits(limits []wire.Rlimit) *failure {
	for _, l := range limits {
		switch l.Resource {
		case unix.RLIMIT_AS, unix.RLIMIT_DATA:
			return &failure{phaseRlimit, unix.EINVAL}
		}
		if err := unix.Setrlimit(int(l.Resource), &unix.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return &failure{phaseRlimit, err}
		}
	}
	return nil
}

// stdio are the standard streams of a program; opened are those that belong to
// us and not to the frame.
type stdio struct {
	stdio  []uintptr
	opened []int
}

// openStdio completes the streams: a pty opened here, in the container's own
// devpts (one made on the host is "not a tty" inside), or what realm sent.
func openStdio(m *wire.Exec, sent []int) (stdio, int, *failure) {
	if m.TTY {
		var master, slave int
		f := asUser(m.UID, m.GID, func() *failure {
			var err error
			if master, slave, err = openPTY(m.Rows, m.Cols); err != nil {
				return &failure{phaseStdio, err}
			}
			return nil
		})
		if f != nil {
			return stdio{}, -1, f
		}
		fd := uintptr(slave)
		return stdio{[]uintptr{fd, fd, fd}, []int{slave}}, master, nil
	}
	var s stdio
	if m.NoStdin {
		null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return s, -1, &failure{phaseStdio, err}
		}
		s.stdio, s.opened = []uintptr{uintptr(null)}, []int{null}
	}
	for _, fd := range sent {
		s.stdio = append(s.stdio, uintptr(fd))
	}
	return s, -1, nil
}

// openPTY opens a pty. Its slave belongs to the caller's file system ids.
func openPTY(rows, cols uint16) (master, slave int, err error) {
	master, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, -1, err
	}
	err = unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0)
	if err == nil && (rows > 0 || cols > 0) {
		err = unix.IoctlSetWinsize(master, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	}
	if err == nil {
		slave, err = openPeer(master)
	}
	if err != nil {
		unix.Close(master)
		return -1, -1, err
	}
	return master, slave, nil
}

// openPeer opens the slave of a pty without a path.
func openPeer(master int) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}
