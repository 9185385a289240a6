package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/contract"
)

// Rebound says what Rebind did.
type Rebound struct {
	// Bound are the destinations that are covered again; empty when nothing was lost.
	Bound []string
	// Tampered says that the session may still be able to write to what is
	// covered, or was seen to change it: treat it as lost protection.
	Tampered bool
	// Doubt says that more happened to the name than one rename by the host, so that
	// whether the host or the session made what is there now cannot be told:
	// report it as host-executed.
	Doubt bool
}

const (
	helperTimeout = 5 * time.Second
	// An editor may move a file away before it writes the new one.
	reappear = 100 * time.Millisecond
)

// Rebind puts the mount of l, and those below it, in force again in the
// container whose PID 1 is initPID, and proves it. It does nothing where nothing is missing.
func (p *Plan) Rebind(ctx context.Context, initPID int, l Lost) (Rebound, error) {
	var out Rebound
	for _, m := range p.Mounts {
		if !p.atRisk(&m) || !contains(l.Mount.Destination, m.Destination) {
			continue
		}
		all, err := mountsOf(initPID)
		if err != nil {
			return out, err
		}
		if inForce(all, m.Bind) {
			l.watch.settle(m.Destination)
			continue
		}
		if err := p.rebindUntilStill(ctx, initPID, m, l.watch, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// rebindUntilStill binds m again, and again when the host has replaced the name
// meanwhile: git config may run several times in a row.
func (p *Plan) rebindUntilStill(ctx context.Context, pid int, m Mount, w *watcher, out *Rebound) error {
	for range maxRebinds {
		err := p.rebindOne(ctx, pid, m, w, out)
		if !errors.Is(err, errReplaced) {
			return err
		}
		out.Doubt = true
	}
	return protectionLost("it does not stay", nil)
}

// maxRebinds bounds how often a name is followed that the host keeps replacing.
const maxRebinds = 32

// errReplaced says that another file had the name before its mount was proven.
var errReplaced = errors.New("replaced again")

// identity tells a file from the next one of its name, also when that got the
// inode number of the one before: by when it was made.
type identity struct {
	id   fileID
	born unix.StatxTimestamp
}

func identify(dir *os.File, base string) (identity, error) {
	var st unix.Statx_t
	if err := unix.Statx(int(dir.Fd()), base, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return identity{}, err
	}
	return identity{fileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}, st.Btime}, nil
}

// replaced reports whether the name is not what it was any more.
func replaced(dir *os.File, base string, was identity) bool {
	now, err := identify(dir, base)
	return err != nil || now != was
}

func (p *Plan) rebindOne(ctx context.Context, pid int, m Mount, w *watcher, out *Rebound) error {
	dir, err := p.holder(m)
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(m.Destination)
	st, made, err := p.waitFor(ctx, dir, base, m)
	if err != nil || st == nil {
		return err
	}
	was, err := identify(dir, base)
	if err != nil || was.id != idOf(st) {
		return errReplaced
	}
	before := content(dir, base, st)
	if err := p.bindAgain(ctx, pid, m, isDir(st)); err != nil {
		if replaced(dir, base, was) {
			return errReplaced
		}
		return err
	}
	all, err := mountsOf(pid)
	if err != nil {
		return err
	}
	if !inForce(all, readOnlyUnlessPin(m)) {
		if replaced(dir, base, was) {
			return errReplaced
		}
		return protectionLost("the new mount is not in force", nil)
	}
	// First wait until nobody inside can write any more, then compare.
	exposed := m.Role != roleHide && m.Role != rolePin && p.stillExposed(ctx, pid, m.Destination, dir, base, st)
	after := content(dir, base, st)
	if replaced(dir, base, was) {
		return errReplaced
	}
	out.Bound = append(out.Bound, m.Destination)
	out.Tampered = out.Tampered || exposed
	doubt := w.settle(m.Destination)
	switch {
	case m.Role == rolePin || m.Role == roleHide:
	case made:
		out.Tampered = out.Tampered || isDir(st) && !emptyDir(dir, base)
	default:
		out.Doubt = out.Doubt || doubt || isDir(st) // of what happens in a directory there are no events
		out.Tampered = out.Tampered || !bytes.Equal(before, after)
	}
	return nil
}

// readOnlyUnlessPin is how a mount is put back. A quarantine cannot be: its
// place is now a .git of the host's, which the session may only read.
func readOnlyUnlessPin(m Mount) container.Bind {
	b := m.Bind
	b.Write = b.Write && m.Role == rolePin
	return b
}

func protectionLost(what string, err error) error {
	return contract.Errorf(contract.IsolationUnproven, "a protected name is exposed: %s", what).WithCause(err)
}

// holder opens the directory that the mount's name is in.
func (p *Plan) holder(m Mount) (*os.File, error) {
	for _, root := range p.Roots {
		rel, ok := below(root, m.Destination)
		if !ok {
			continue
		}
		r, err := os.OpenFile(root, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, protectionLost("the workspace is gone", err)
		}
		defer r.Close()
		dir, _, err := openParent(r, rel)
		if err != nil {
			return nil, protectionLost("the directory that holds it is gone", err)
		}
		return dir, nil
	}
	return nil, protectionLost("it is in no tree of this plan", nil)
}

// waitFor returns what is at the name now. A protected name that stays away gets
// a placeholder; a hidden one may stay away, and there is nothing to cover then.
func (p *Plan) waitFor(ctx context.Context, dir *os.File, base string, m Mount) (st *unix.Stat_t, made bool, err error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(reappear); ; {
		st, err := lstatAt(dir, base)
		switch {
		case err == nil && isLink(st):
			return nil, false, protectionLost("it is a symbolic link now", nil)
		case err == nil:
			return st, false, nil
		case err != unix.ENOENT:
			return nil, false, protectionLost("it cannot be examined", err)
		case m.Role == roleHide && time.Now().After(deadline):
			return nil, false, nil
		case time.Now().After(deadline):
			st, err := p.replace(ctx, dir, base, m)
			return st, true, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, false, protectionLost("there was no time", context.Cause(ctx))
		}
	}
}

// replace makes a placeholder where the host took a protected name away.
func (p *Plan) replace(ctx context.Context, dir *os.File, base string, m Mount) (*unix.Stat_t, error) {
	for _, root := range p.Roots {
		rel, ok := below(root, m.Destination)
		if !ok {
			continue
		}
		want := placeholder{path: rel, isDir: true}
		if text, isFile := gitFile(rel); isFile && strings.HasPrefix(m.Rule, "git:") {
			want.isDir, want.content = false, text
		} else if m.Rule == ruleGitConfig {
			want.isDir = m.IsDir
		}
		if err := p.acquireOne(ctx, root, want); err != nil {
			return nil, err
		}
		st, err := lstatAt(dir, base)
		if err != nil || isLink(st) {
			return nil, protectionLost("a placeholder could not be made", err)
		}
		return st, nil
	}
	return nil, protectionLost("it is in no tree of this plan", nil)
}

func (p *Plan) acquireOne(ctx context.Context, root string, want placeholder) error {
	l, err := openLedger(ctx, p.StateDir, root)
	if err != nil {
		return err
	}
	defer l.close()
	r, err := os.OpenFile(root, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return protectionLost("the workspace is gone", err)
	}
	defer r.Close()
	st, err := fstat(r)
	if err != nil {
		return err
	}
	_, err = l.acquire(r, p.Session, []placeholder{want}, [2]int{int(st.Uid), int(st.Gid)})
	return err
}

// bindAgain runs the helper. What is bound comes from inside: the name itself,
// which leads to the new file through the mount around it, or a cover.
func (p *Plan) bindAgain(ctx context.Context, pid int, m Mount, dir bool) error {
	job := bindJob{pid: pid, userns: os.Geteuid() != 0, write: readOnlyUnlessPin(m).Write, src: m.Destination, dst: m.Destination}
	if m.Role == roleHide {
		job.src = filepath.Join(CoverDir, filepath.Base(coverFile("", dir)))
	}
	ctx, cancel := context.WithTimeout(ctx, helperTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", job.args()...)
	cmd.Env = []string{}
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return protectionLost("it could not be mounted again", errors.Join(err, errors.New(string(out[:min(len(out), 200)]))))
	}
	return nil
}
