package guest

import (
	"context"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// Rlimit is a resource limit, numbered as in setrlimit(2). Limits can only be
// lowered; RLIMIT_AS and RLIMIT_DATA are refused.
type Rlimit = wire.Rlimit

// ExecRequest says which program to run and how.
type ExecRequest struct {
	ID   string   // of the call, unique among those that are alive
	Argv []string // the first is looked up in the PATH of Env, inside
	Env  []string // the whole environment
	Dir  string   // absolute

	UID, GID         uint32 // of the program, in the container
	HostUID, HostGID uint32 // the same on the host: they own the pipes

	NoStdin    bool // standard input is /dev/null
	Tty        bool // a terminal of Rows and Cols
	Rows, Cols uint16

	Rlimits []Rlimit
	Home    string // made for the program when it is missing; "" for none
}

var errInvalid = errors.New("invalid exec request")

func (r *ExecRequest) check() error {
	if r.ID == "" || len(r.Argv) == 0 || !strings.HasPrefix(r.Dir, "/") ||
		r.Home != "" && !strings.HasPrefix(r.Home, "/") {
		return errInvalid
	}
	for _, list := range [][]string{r.Argv, r.Env, {r.Dir, r.Home}} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return errInvalid
			}
		}
	}
	return nil
}

func (r *ExecRequest) message() *wire.Exec {
	return &wire.Exec{
		Call: r.ID, Argv: r.Argv, Env: r.Env, Dir: r.Dir, UID: r.UID, GID: r.GID,
		NoStdin: r.NoStdin, TTY: r.Tty, Rows: r.Rows, Cols: r.Cols,
		Rlimits: r.Rlimits, Home: r.Home,
	}
}

// Exec starts a program and returns once it runs. A program that could not be
// started is a [*StartError]. When ctx ends before that, the call is killed.
func (l *Link) Exec(ctx context.Context, r ExecRequest) (*Process, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	p := &Process{link: l, id: r.ID, tty: r.Tty, started: make(chan struct{}), done: make(chan struct{})}
	far, err := p.openPipes(&r)
	if err == nil {
		err = l.send(p, r.message(), far...)
	}
	wire.CloseFiles(far)
	if err != nil {
		p.closeFiles()
		return nil, err
	}
	select {
	case <-p.started:
		p.openTerminal()
		return p, nil
	case <-p.done:
		select {
		case <-p.started: // and ended at once
			p.openTerminal()
			return p, nil
		default:
		}
		p.closeFiles()
		return nil, p.err
	case <-ctx.Done():
		p.abandon()
		return nil, ctx.Err()
	}
}

// openPipes opens the pipes of a program without a terminal and returns the
// ends that are for it.
func (p *Process) openPipes(r *ExecRequest) (far []int, err error) {
	if r.Tty {
		return nil, nil
	}
	for stream := range 3 {
		if stream == 0 && r.NoStdin {
			continue
		}
		var ends [2]int
		if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return far, err
		}
		near, away := ends[0], ends[1]
		if stream == 0 {
			near, away = away, near
		}
		far = append(far, away)
		f, err := nearEnd(near)
		if err != nil {
			return far, err
		}
		switch stream {
		case 0:
			p.Stdin = f
		case 1:
			p.Stdout = f
		case 2:
			p.Stderr = f
		}
		if err := giveTo(away, r.HostUID, r.HostGID); err != nil {
			return far, err
		}
	}
	return far, nil
}

// nearEnd is our end: in the poller, so that deadlines and Close work.
func nearEnd(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "pipe"), nil
}

// giveTo makes the program the owner of a pipe: it opens /dev/stderr by name,
// which asks for the permissions of the pipe's inode.
func giveTo(fd int, uid, gid uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid == uid && st.Gid == gid {
		return nil
	}
	err := unix.Fchown(fd, int(uid), int(gid))
	if err != nil && st.Uid == uid {
		return nil // the group does not matter to the owner
	}
	return err
}
