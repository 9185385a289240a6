package workspace

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/contract"
)

// Rebound says what Rebind did.
type Rebound struct {
	// Bound are the destinations that are covered again; empty when nothing was lost.
	Bound []string
	// Tampered says that the session may have the file open for writing, or changed
	// it, in the moment it was exposed: treat it as lost protection.
	Tampered bool
	// Anew says that the name was gone for a moment and made anew. Whether the
	// host made it or the session cannot be told: report it as host-executed.
	Anew bool
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
			continue
		}
		if err := p.rebindOne(ctx, initPID, m, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

func (p *Plan) rebindOne(ctx context.Context, pid int, m Mount, out *Rebound) error {
	dir, err := p.holder(m)
	if err != nil {
		return err
	}
	defer dir.Close()
	base := path.Base(m.Destination)
	st, anew, err := p.waitFor(ctx, dir, base, m)
	if err != nil || st == nil {
		return err
	}
	before := content(dir, base, st)
	if err := p.bindAgain(ctx, pid, m, isDir(st)); err != nil {
		return err
	}
	all, err := mountsOf(pid)
	if err != nil {
		return err
	}
	if !inForce(all, readOnlyUnlessPin(m)) {
		return protectionLost("the new mount is not in force", nil)
	}
	out.Bound = append(out.Bound, m.Destination)
	out.Anew = out.Anew || anew
	if m.Role == rolePin {
		return nil
	}
	if !bytes.Equal(before, content(dir, base, st)) || m.Role != roleHide && exposed(pid, all, m.Destination, dir, base, st) {
		out.Tampered = true
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
func (p *Plan) waitFor(ctx context.Context, dir *os.File, base string, m Mount) (st *unix.Stat_t, anew bool, err error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(reappear); ; {
		st, err := lstatAt(dir, base)
		switch {
		case err == nil && isLink(st):
			return nil, anew, protectionLost("it is a symbolic link now", nil)
		case err == nil:
			return st, anew, nil
		case err != unix.ENOENT:
			return nil, anew, protectionLost("it cannot be examined", err)
		case m.Role == roleHide && time.Now().After(deadline):
			return nil, anew, nil
		case time.Now().After(deadline):
			return p.replace(ctx, dir, base, m)
		}
		anew = true
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, anew, protectionLost("there was no time", context.Cause(ctx))
		}
	}
}

// replace makes a placeholder where the host took a protected name away.
func (p *Plan) replace(ctx context.Context, dir *os.File, base string, m Mount) (*unix.Stat_t, bool, error) {
	for _, root := range p.Roots {
		rel, ok := below(root, m.Destination)
		if !ok {
			continue
		}
		content, isFile := "", false
		if m.Role == roleGit || m.Role == rolePlaceholder && !m.IsDir {
			content, isFile = gitFiles[path.Base(rel)]
		}
		if err := p.acquireOne(ctx, root, placeholder{path: rel, isDir: !isFile, content: content}); err != nil {
			return nil, false, err
		}
		st, err := lstatAt(dir, base)
		if err != nil || isLink(st) {
			return nil, false, protectionLost("a placeholder could not be made", err)
		}
		return st, false, nil
	}
	return nil, false, protectionLost("it is in no tree of this plan", nil)
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
