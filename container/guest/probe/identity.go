package probe

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// initMask are the capabilities that init may have, and the bounding set of
// everything else: KILL, SETGID, SETUID.
const initMask = 1<<unix.CAP_KILL | 1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID

// programOOMScore is what init gives programs.
const programOOMScore = "1000"

func (r *report) identity(m *wire.ProbeRequest) {
	st := readStatus()
	r.add(wire.ProbeCapabilities, noCapabilities(st))
	r.add(wire.ProbeNoNewPrivs, equals(st["NoNewPrivs"], "1"))
	r.add(wire.ProbeSeccomp, equals(st["Seccomp"], "2"))
	r.add(wire.ProbeIDs, ids(st, m))
	r.add(wire.ProbeUserMap, worst(userMap("/proc/self/gid_map"), userMap("/proc/self/uid_map")))
	r.add(wire.ProbeEnvironment, environment(m.Env))
	dir, err := unix.Getwd()
	r.add(wire.ProbeDirectory, holds(err == nil && dir == m.Dir))
	r.add(wire.ProbeSession, ownSession())
	adj, _ := os.ReadFile("/proc/self/oom_score_adj")
	r.add(wire.ProbeOOMScore, equals(strings.TrimSpace(string(adj)), programOOMScore))
}

func holds(ok bool) result {
	if ok {
		return pass("as asked")
	}
	return bad("not as asked")
}

func equals(got, want string) result { return holds(got == want) }

// readStatus is /proc/self/status; nothing when it cannot be read.
func readStatus() map[string]string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	st := map[string]string{}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			st[key] = strings.TrimSpace(value)
		}
	}
	return st
}

// capabilitySet is a set out of the status, everything when it is not there.
func capabilitySet(st map[string]string, key string) uint64 {
	v, err := strconv.ParseUint(st[key], 16, 64)
	if err != nil {
		return ^uint64(0)
	}
	return v
}

func noCapabilities(st map[string]string) result {
	for _, key := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		if capabilitySet(st, key) != 0 {
			return bad("a set is not empty")
		}
	}
	if capabilitySet(st, "CapBnd")&^initMask != 0 {
		return bad("the bounding set is too large")
	}
	return pass("none")
}

func initCapabilities(st map[string]string) result {
	for _, key := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if capabilitySet(st, key)&^initMask != 0 {
			return bad("a set is too large")
		}
	}
	return pass("as asked")
}

func ids(st map[string]string, m *wire.ProbeRequest) result {
	for key, want := range map[string]uint32{"Uid": m.UID, "Gid": m.GID} {
		got := strings.Fields(st[key])
		if len(got) != 4 {
			return bad("not visible")
		}
		for _, id := range got { // real, effective, saved, file system
			if id != strconv.FormatUint(uint64(want), 10) {
				return bad("not as asked")
			}
		}
	}
	for _, g := range strings.Fields(st["Groups"]) {
		if g != strconv.FormatUint(uint64(m.GID), 10) {
			return bad("supplementary groups")
		}
	}
	return pass("as asked")
}

// userMap proves that the process is in a user namespace of its own: the first
// one maps every id to itself.
func userMap(path string) result {
	b, err := os.ReadFile(path)
	if err != nil {
		return bad("not visible")
	}
	lines := 0
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return bad("not visible")
		}
		if count, err := strconv.ParseUint(f[2], 10, 64); err != nil || f[0] == f[1] && count >= 1<<32-1 {
			return bad("identity")
		}
		lines++
	}
	if lines == 0 {
		return bad("nothing mapped")
	}
	return pass("mapped")
}

func environment(want []string) result {
	got := os.Environ()
	want = slices.Clone(want)
	slices.Sort(got)
	slices.Sort(want)
	return holds(slices.Equal(got, want))
}

// ownSession proves that no terminal of another session can be reached.
func ownSession() result {
	sid, err := unix.Getsid(0)
	if err != nil || sid != unix.Getpid() {
		return bad("not its own")
	}
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		return bad("has a terminal")
	}
	return pass("its own")
}

// inheritedDescriptors counts the descriptors from first on that came through
// an exec: only one without close-on-exec does, and the runtime opens none of
// these. It is -1 when they cannot be listed.
func inheritedDescriptors(first int) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	n := 0
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < first {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			n++
		}
	}
	return n
}

// InheritedDescriptors counts what came to this process through its exec,
// beside the standard streams; -1 when that cannot be known.
func InheritedDescriptors() int { return inheritedDescriptors(3) }

func noDescriptors(n int) result {
	switch {
	case n < 0:
		return bad("not visible")
	case n > 0:
		return bad("leaked")
	}
	return pass("none")
}
