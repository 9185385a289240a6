package workspace

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// maxProbes bounds how many mounts are tried from inside. All of them are
// compared with the kernel's list by Verify; trying is a sample.
const maxProbes = 64

// Probes are the read-only destinations to be tried from inside: the first of
// git's, of the protected and of the hidden names, then the second of each, and
// so on, without those that no program can reach.
func (p *Plan) Probes() []string {
	byRole := map[string][]string{}
	for _, m := range p.Mounts {
		if !m.Write && !m.Closed {
			byRole[m.Role] = append(byRole[m.Role], m.Destination)
		}
	}
	var out []string
	for i := 0; i < maxProbes; i++ {
		for _, role := range []string{roleGit, roleProtect, roleHide} {
			if i < len(byRole[role]) && len(out) < maxProbes {
				out = append(out, byRole[role][i])
			}
		}
	}
	return out
}

// close marks the mounts that lie below a directory which programs cannot enter.
func (t *Tree) close(root string, mounts []Mount) {
	open := map[string]bool{}
	for i := range mounts {
		for dir := path.Dir(mounts[i].Destination); contains(root, dir); dir = path.Dir(dir) {
			if _, seen := open[dir]; !seen {
				var st unix.Stat_t
				open[dir] = unix.Lstat(dir, &st) != nil || t.ownerMay(&st, 1)
			}
			mounts[i].Closed = mounts[i].Closed || !open[dir]
		}
	}
}

// ownerMay reports whether the mode gives the workspace's owner bit (1: enter, 2: write).
// Where it is mistaken for yes the probes fail and the session does not start.
func (t *Tree) ownerMay(st *unix.Stat_t, bit uint32) bool {
	switch {
	case int(st.Uid) == t.uid:
		return st.Mode&(bit<<6) != 0
	case int(st.Gid) == t.gid:
		return st.Mode&(bit<<3) != 0
	}
	return st.Mode&bit != 0
}

// rootWritable reports whether the owner may make names in the tree's root as it is.
func (t *Tree) rootWritable(dir *os.File) bool {
	st, err := fstat(dir)
	return err != nil || t.ownerMay(st, 2) && t.ownerMay(st, 1)
}
