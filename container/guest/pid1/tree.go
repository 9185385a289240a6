package pid1

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is one line of the process table.
type process struct {
	pid, ppid int
	state     byte
	name      string
}

// table is a snapshot of /proc, by parent.
type table map[int][]process

// readTable reads the process table. It is no atomic snapshot: a process whose
// parent ends meanwhile may hang in the air, so callers look again.
func readTable() (table, error) {
	dir, err := unix.Open("/proc", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	t := table{}
	entries := make([]byte, 16<<10)
	var names []string
	for {
		n, err := unix.ReadDirent(dir, entries)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return t, nil
		}
		_, _, names = unix.ParseDirent(entries[:n], -1, names[:0])
		for _, name := range names {
			if p, ok := readStat(dir, name); ok {
				t[p.ppid] = append(t[p.ppid], p)
			}
		}
	}
}

// readStat reads /proc/NAME/stat; false when NAME is no live process.
func readStat(proc int, name string) (process, bool) {
	if name[0] < '1' || name[0] > '9' {
		return process{}, false
	}
	var buf [512]byte
	b := readAt(proc, name+"/stat", buf[:])
	return parseStat(b)
}

// parseStat parses "PID (NAME) STATE PPID …". NAME may hold anything, so that
// only its last parenthesis counts.
func parseStat(b []byte) (process, bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 2 || end < open || len(b) < end+5 {
		return process{}, false
	}
	pid, err := strconv.Atoi(string(b[:open-1]))
	if err != nil {
		return process{}, false
	}
	rest := b[end+4:]
	space := bytes.IndexByte(rest, ' ')
	if space < 0 {
		return process{}, false
	}
	ppid, err := strconv.Atoi(string(rest[:space]))
	if err != nil {
		return process{}, false
	}
	return process{pid: pid, ppid: ppid, state: b[end+2], name: string(b[open+1 : end])}, true
}

// readAt reads the start of a small file into buf; nil when it cannot.
func readAt(dir int, path string, buf []byte) []byte {
	fd, err := unix.Openat(dir, path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// below calls f for every process below root, parents first.
func (t table) below(root int, f func(process)) {
	for _, p := range t[root] {
		f(p)
		t.below(p.pid, f)
	}
}

// count is the number of processes below root.
func (t table) count(root int) int {
	n := 0
	t.below(root, func(process) { n++ })
	return n
}

// stopRounds bounds how often killBelow looks for processes not stopped yet.
// Its caller comes back anyway until nothing is left.
const stopRounds = 64

// killBelow stops everything below root until nothing new appears, then kills
// it. Stopping first is what beats a fork bomb: a stopped process cannot fork,
// and one killed early would only make its children harder to see. A signal
// fails only for what has ended meanwhile.
func killBelow(root int) error {
	stopped := map[int]struct{}{}
	for range stopRounds {
		t, err := readTable()
		if err != nil {
			return err
		}
		fresh := 0
		t.below(root, func(p process) {
			if _, ok := stopped[p.pid]; !ok {
				stopped[p.pid] = struct{}{}
				fresh++
				_ = unix.Kill(p.pid, unix.SIGSTOP)
			}
		})
		if fresh == 0 {
			break
		}
	}
	for pid := range stopped {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return nil
}

// ownerOf is the effective uid of a process, 0 when it is gone.
func ownerOf(pid int) uint32 {
	var buf [1024]byte
	b := readAt(unix.AT_FDCWD, "/proc/"+strconv.Itoa(pid)+"/status", buf[:])
	_, b, _ = bytes.Cut(b, []byte("\nUid:"))
	line, _, _ := bytes.Cut(b, []byte("\n"))
	if ids := bytes.Fields(line); len(ids) > 1 {
		uid, _ := strconv.ParseUint(string(ids[1]), 10, 32)
		return uint32(uid)
	}
	return 0
}
