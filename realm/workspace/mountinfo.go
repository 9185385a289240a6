package workspace

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"realm.dev/container"
	"realm.dev/contract"
)

// mountEntry is one line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
type mountEntry struct {
	id, parent int
	point      string
	readOnly   bool // of the mount, not of the file system
}

var errMountinfo = errors.New("not mountinfo")

// parseMountinfo reads a whole mountinfo file.
func parseMountinfo(data []byte) ([]mountEntry, error) {
	var out []mountEntry
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) < 6 {
			return nil, errMountinfo
		}
		id, err := strconv.Atoi(f[0])
		parent, perr := strconv.Atoi(f[1])
		if err != nil || perr != nil {
			return nil, errMountinfo
		}
		e := mountEntry{id: id, parent: parent, point: unescape(f[4])}
		for opt := range strings.SplitSeq(f[5], ",") {
			e.readOnly = e.readOnly || opt == "ro"
		}
		out = append(out, e)
	}
	return out, s.Err()
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// visibleMount returns the mount that name lies on: it walks from the root and
// crosses each mount point on the way, as the kernel does. A mount that lies
// under another one is not found.
func visibleMount(all []mountEntry, name string) (mountEntry, bool) {
	cur, ok := rootMount(all)
	if !ok {
		return cur, false
	}
	for range all {
		next, found := mountEntry{}, false
		for _, e := range all {
			if e.parent == cur.id && e.id != cur.id && contains(cur.point, e.point) && contains(e.point, name) &&
				(!found || len(e.point) < len(next.point)) {
				next, found = e, true
			}
		}
		if !found {
			break
		}
		cur = next
	}
	return cur, true
}

func rootMount(all []mountEntry) (mountEntry, bool) {
	ids := map[int]bool{}
	for _, e := range all {
		ids[e.id] = true
	}
	for _, e := range all {
		if e.point == "/" && (!ids[e.parent] || e.parent == e.id) {
			return e, true
		}
	}
	return mountEntry{}, false
}

// inForce reports whether the bind is what a program sees at its destination.
func inForce(all []mountEntry, b container.Bind) bool {
	m, ok := visibleMount(all, b.Destination)
	return ok && m.point == path.Clean(b.Destination) && (b.Write || m.readOnly)
}

func mountsOf(pid int) ([]mountEntry, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err == nil {
		var all []mountEntry
		if all, err = parseMountinfo(data); err == nil {
			return all, nil
		}
	}
	return nil, contract.Errorf(contract.SessionLost, "the container's mounts could not be read").WithCause(err)
}

// protective reports whether a mount keeps the session from something. The
// rest (a home, a further directory) gives it something.
func (m *Mount) protective() bool {
	switch m.Role {
	case roleGit, roleProtect, roleHide, rolePin, rolePlaceholder:
		return true
	}
	return false
}

// atRisk reports whether the host can take the mount away: its mount point is
// a name in a tree of the host's, not one that only the container has.
func (p *Plan) atRisk(m *Mount) bool {
	return m.protective() && slices.ContainsFunc(p.Roots, func(root string) bool {
		rel, ok := below(root, m.Destination)
		return ok && rel != "."
	})
}

// Verify returns the mounts that hold the policy and are not in force in the
// mount namespace of the container whose PID 1 is initPID.
func (p *Plan) Verify(initPID int) ([]container.Bind, error) {
	all, err := mountsOf(initPID)
	if err != nil {
		return nil, err
	}
	var out []container.Bind
	if !inForce(all, p.Workspace) {
		out = append(out, p.Workspace)
	}
	for _, m := range p.Mounts {
		if m.protective() && !inForce(all, m.Bind) {
			out = append(out, m.Bind)
		}
	}
	return out, nil
}
