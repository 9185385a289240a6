package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// A quarantine is the .git of a session in a tree that has none. The session
// may do with it what it likes; the host sees it only after Publish.

func quarantineDir(stateDir, session string) string {
	return filepath.Join(stateDir, "quarantine", session)
}

// dropQuarantine removes a quarantine that holds nothing. One that holds work
// stays for `realm restore`.
func dropQuarantine(stateDir, session string) error {
	err := os.Remove(quarantineDir(stateDir, session))
	if err == nil || errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return ioError(err, "the quarantine could not be removed")
}

func sweepQuarantines(stateDir string, live func(string) bool) error {
	names, err := os.ReadDir(filepath.Join(stateDir, "quarantine"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return ioError(err, "the quarantines could not be read")
	}
	var errs []error
	for _, n := range names {
		if !live(n.Name()) {
			errs = append(errs, dropQuarantine(stateDir, n.Name()))
		}
	}
	return errors.Join(errs...)
}

// The reasons why a whole repository stays in the quarantine.
const (
	heldNoRepository = "it is not a git repository"
	heldTaken        = "the host has made a .git of its own meanwhile"
	heldShared       = "another session works in the same workspace"
	heldLarge        = "it has more files or bytes than realm copies"
	heldFailed       = "it could not be copied"
)

// Publish brings a repository that the session made to the host: its objects, refs and index as they are, the
// settings that are known to be harmless, no hooks, no links. Call it when the
// container is gone and before Release. What it returns did not reach the host; all of it is
// still in the quarantine. Without a quarantine it does nothing.
func (p *Plan) Publish(ctx context.Context) ([]contract.HeldBack, error) {
	if p.Quarantine == "" {
		return nil, nil
	}
	src, err := os.OpenFile(p.Quarantine, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // published before
	}
	if err != nil {
		return nil, ioError(err, "the quarantine could not be opened")
	}
	defer src.Close()
	if _, err := src.Readdirnames(1); err != nil {
		return nil, nil // empty: the session made no repository
	}
	whole := func(reason string) ([]contract.HeldBack, error) {
		return []contract.HeldBack{{Path: ".git", Reason: reason}}, nil
	}
	if !isGitDir(p.Quarantine) {
		return whole(heldNoRepository)
	}
	l, err := openLedger(ctx, p.StateDir, p.Root)
	if err != nil {
		return nil, err
	}
	defer l.close()
	root, err := os.OpenFile(p.Root, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, ioError(err, "the workspace could not be opened")
	}
	defer root.Close()
	if reason := p.takenBy(l, root); reason != "" {
		return whole(reason)
	}
	held, reason := p.publishInto(ctx, src, root)
	if reason != "" {
		return whole(reason)
	}
	l.drop(".git") // what is there now is the user's
	if err := l.save(); err != nil {
		return held, err
	}
	return held, p.retire(len(held) == 0)
}

// retire removes a quarantine that was published whole, and puts one of which
// something was held back out of the way of a second Publish.
func (p *Plan) retire(whole bool) error {
	if whole && os.RemoveAll(p.Quarantine) == nil {
		return nil
	}
	if err := os.Rename(p.Quarantine, HeldDir(p.StateDir, p.Session)); err != nil {
		return ioError(err, "the quarantine could not be put aside")
	}
	return nil
}

// HeldDir is where a session's repository is kept when something of it was held back.
func HeldDir(stateDir, session string) string {
	return quarantineDir(stateDir, session) + ".held"
}

// takenBy says why the repository cannot take the place of the .git that is there.
func (p *Plan) takenBy(l *ledger, root *os.File) string {
	if st, err := fstat(root); err != nil || idOf(st) != l.Dir && len(l.Items) > 0 {
		return heldTaken
	}
	if it := l.find(".git"); it != nil {
		for _, s := range it.Sessions {
			if s != p.Session {
				return heldShared
			}
		}
	}
	dir, err := openAt(root, ".git", unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) {
		return ""
	}
	if err != nil {
		return heldTaken
	}
	defer dir.Close()
	if _, err := dir.Readdirnames(1); err == nil {
		return heldTaken
	}
	return ""
}

// publishInto copies beside the place and renames: the host sees no half of a repository. The
// rename replaces an empty directory and nothing else.
func (p *Plan) publishInto(ctx context.Context, src, root *os.File) ([]contract.HeldBack, string) {
	tmp := ".git.realm-" + p.Session
	if err := removeTree(root, tmp); err != nil { // of a crash
		return nil, heldFailed
	}
	owner, err := fstat(root)
	if err != nil {
		return nil, heldFailed
	}
	c := &publication{ctx: ctx, uid: int(owner.Uid), gid: int(owner.Gid)}
	err = c.copyInto(src, root, tmp)
	if err == nil {
		err = unix.Renameat(int(root.Fd()), tmp, int(root.Fd()), ".git")
	}
	if err == nil {
		return c.held, ""
	}
	_ = removeTree(root, tmp)
	switch {
	case errors.Is(err, errLarge):
		return nil, heldLarge
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTDIR):
		return nil, heldTaken
	}
	return nil, heldFailed
}

func removeTree(root *os.File, name string) error {
	r, err := os.OpenRoot(procPath(root))
	if err != nil {
		return err
	}
	defer r.Close()
	return r.RemoveAll(name)
}
