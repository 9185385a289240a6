package pid1

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/probe"
	"realm.dev/container/guest/wire"
)

// probePatience bounds a run of the probes.
const probePatience = 5 * time.Second

// probe proves the isolation: what can only be seen as init, and, in a process
// started exactly like a program, everything else.
func (l *link) probe(id uint32, m *wire.Probe) {
	report, err := l.s.probe(m)
	if err != nil {
		l.reply(id, errnoOf(err))
		return
	}
	results := append(probe.Init(l.s.inherited), report.Results...)
	report.Results = probe.Waive(results, m.Waived)
	l.send(id, report)
}

func (s *supervisor) probe(m *wire.Probe) (*wire.Report, error) {
	sh, err := s.pool.take()
	if err != nil {
		return nil, err
	}
	// A shim that ran a probe is not used again: whatever state an error left
	// it in does not matter then.
	defer sh.conn.Close()
	conn, err := startProbe(sh, m)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	report, err := askProbe(conn, m)
	if ended := endProbe(sh); ended != nil {
		return nil, ended
	}
	return report, err
}

func askProbe(conn *wire.Conn, m *wire.Probe) (*wire.Report, error) {
	if err := conn.Write(0, m); err != nil {
		return nil, err
	}
	f, err := conn.Read()
	if err != nil {
		return nil, err
	}
	if f.Type != wire.TypeReport {
		return nil, unix.EPROTO
	}
	var report wire.Report
	return &report, wire.DecodeInto(&report, f.Payload)
}

// endProbe ends what is left of the probe and returns why it could not be
// started, if that was so.
func endProbe(sh *shim) error {
	if err := killBelow(sh.pid); err != nil {
		return err
	}
	if err := sh.conn.SetReadDeadline(time.Now().Add(probePatience)); err != nil {
		return err
	}
	for {
		f, err := sh.conn.Read()
		if err != nil {
			return err
		}
		m, err := wire.Decode(f.Type, f.Payload)
		if err != nil {
			return err
		}
		if m, ok := m.(*wire.Exited); ok && m.Outcome == wire.OutcomeNotStarted {
			return unix.Errno(m.Errno)
		} else if ok && m.Background == 0 {
			return nil
		}
		if _, idle := m.(*wire.Idle); idle {
			return nil
		}
	}
}

// startProbe has sh run this binary with the ids, environment and directory of
// a program, and returns the socket that is its standard input.
func startProbe(sh *shim, m *wire.Probe) (*wire.Conn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[1])
	if err = unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	conn, err := wire.NewConn(pair[0])
	if err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(null)
		conn.WriteTimeout = probePatience
		err = conn.SetReadDeadline(time.Now().Add(probePatience))
	}
	if err == nil {
		err = sh.conn.Write(0, &wire.Exec{
			Call: roleProbe, Argv: []string{self, roleProbe}, Env: m.Env, Dir: m.Dir, Home: m.Home, UID: m.UID, GID: m.GID,
		}, pair[1], null, null)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
