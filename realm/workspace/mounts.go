package workspace

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"realm.dev/container"
)

// Mount is one bind mount of a plan and why it is there.
type Mount struct {
	container.Bind
	Rule  string `json:"rule,omitempty"` // of the policy that asked for it
	Why   string `json:"why"`
	IsDir bool   `json:"isDir"`
	// Closed says that the mount lies below a directory that the workspace's owner,
	// and so a program, may not enter as it is: there is nothing to try from inside.
	Closed bool `json:"closed,omitempty"`
}

// The roles of binds that a plan makes.
const (
	roleWorkspace   = "workspace"
	roleGit         = "git"
	roleProtect     = "protect"
	roleHide        = "hide"
	rolePin         = "pin"
	rolePlaceholder = "placeholder"
	roleHome        = "home"
	roleMount       = "mount"
	roleCover       = "cover"
)

// cover is one name in the tree that the plan puts a mount on.
type cover struct {
	path   string // below the root
	isDir  bool
	role   string
	rule   string
	why    string
	source string // "" binds the name onto itself
	write  bool
}

// layout turns covers into the ordered mounts of a tree. It is pure. In a
// writable tree every directory on the way to a cover is pinned by a bind onto
// itself: without, renaming that directory would carry the cover away. Below a
// read-only cover nothing can be renamed, so nothing is pinned there, and a
// read-only cover below another one is left out.
func layout(root string, writable bool, covers []cover) []Mount {
	byPath := map[string]cover{}
	for _, c := range covers {
		if old, ok := byPath[c.path]; !ok || strength(c) > strength(old) {
			byPath[c.path] = c
		}
	}
	if writable {
		for _, c := range covers {
			pinAncestors(byPath, c.path)
		}
	}
	paths := make([]string, 0, len(byPath))
	for p := range byPath {
		paths = append(paths, p)
	}
	slices.SortFunc(paths, comparePaths)
	var out []Mount
	for _, p := range paths {
		if c := byPath[p]; !redundant(byPath, c, writable) {
			out = append(out, c.mount(root))
		}
	}
	return out
}

// strength orders what two rules want of one name: hidden beats read-only beats pinned.
func strength(c cover) int {
	switch {
	case c.role == roleHide:
		return 3
	case !c.write:
		return 2
	case c.role != rolePin:
		return 1
	}
	return 0
}

func pinAncestors(byPath map[string]cover, p string) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		if _, ok := byPath[dir]; !ok {
			byPath[dir] = cover{path: dir, isDir: true, role: rolePin, write: true, why: "holds the mounts below it in place"}
		}
	}
}

// redundant reports whether c changes nothing: it lies in a hidden directory,
// or it is a pin or a read-only cover in what is read-only already.
func redundant(byPath map[string]cover, c cover, writable bool) bool {
	plain := c.source == "" && (!c.write || c.role == rolePin)
	if plain && c.role != roleHide && !writable {
		return true
	}
	for dir := path.Dir(c.path); dir != "."; dir = path.Dir(dir) {
		up, ok := byPath[dir]
		switch {
		case !ok:
		case up.role == roleHide:
			return true
		case !up.write:
			return plain && c.role != roleHide
		case up.role != rolePin:
			return false // a writable mount of its own, whatever lies above it
		}
	}
	return false
}

func (c cover) mount(root string) Mount {
	dst := path.Join(root, c.path)
	src := c.source
	if src == "" {
		src = dst
	}
	return Mount{
		Bind: container.Bind{
			Source: src, Destination: dst, Write: c.write,
			Exec:  c.role != roleHide,
			Owned: c.role != roleHide,
			Role:  c.role,
		},
		Rule: c.rule, Why: c.why, IsDir: c.isDir,
	}
}

// comparePaths orders a directory before what it holds.
func comparePaths(a, b string) int {
	return cmp.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}
