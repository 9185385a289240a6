package pid1

import (
	"bytes"
	"strconv"

	"golang.org/x/sys/unix"
)

// oomCounter reads how many processes of the session's cgroup the kernel's OOM
// killer has ended.
type oomCounter struct{ fd int }

// openOOMCounter looks for the counter of cgroup v2, then of v1.
func openOOMCounter() oomCounter {
	for _, path := range []string{
		"/sys/fs/cgroup/memory.events",
		"/sys/fs/cgroup/memory/memory.oom_control",
	} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		c := oomCounter{fd}
		if _, ok := c.kills(); ok && isCgroup(fd) {
			return c
		}
		unix.Close(fd)
	}
	return oomCounter{-1}
}

// isCgroup says whether a file is the kernel's: what programs may write to can
// be mounted at the same place.
func isCgroup(fd int) bool {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	return err == nil && (st.Type == unix.CGROUP_SUPER_MAGIC || st.Type == unix.CGROUP2_SUPER_MAGIC)
}

// kills is the counter's value, false when it is not visible.
func (c oomCounter) kills() (uint64, bool) {
	var buf [512]byte
	n, err := unix.Pread(c.fd, buf[:], 0)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(buf[:n]) {
		if rest, ok := bytes.CutPrefix(line, []byte("oom_kill ")); ok {
			v, err := strconv.ParseUint(string(bytes.TrimSpace(rest)), 10, 64)
			return v, err == nil
		}
	}
	return 0, false
}
