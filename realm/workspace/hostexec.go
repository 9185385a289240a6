package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/contract"
)

// Bounds of the search for what the host would execute.
const (
	hostExecTime = 10 * time.Second
	hostExecMax  = 256
	maxHooks     = 4096
)

// HostExecuted finds what a host-side git would execute or follow and what the session may have put
// there since it began: repositories inside the tree, bare ones, `.git` files, and a todo list of an
// unfinished rebase that runs commands. It goes by the time of the last change
// of the inode, which no program can set. The list is sorted; when the search
// was cut short it is what was found so far, with LIMIT_EXCEEDED.
func (t *Tree) HostExecuted(ctx context.Context, since time.Time) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, hostExecTime)
	defer cancel()
	// The kernel stamps with the time of the last tick.
	s := &hostSearch{since: since.Add(-time.Second)}
	if root := (entry{dir: t.dir, name: "."}); s.bare(root) && s.rootChanged(t, root) {
		s.found = append(s.found, ".")
	}
	err := walk(ctx, t.dir, 0, s.visit)
	slices.Sort(s.found)
	if errors.Is(err, errCut) {
		err = contract.Errorf(contract.LimitExceeded, "the search for files that the host executes was cut short").WithCause(context.Cause(ctx))
	}
	return s.found, err
}

type hostSearch struct {
	since time.Time
	found []string
}

func (s *hostSearch) report(name string) error {
	if len(s.found) == hostExecMax {
		return errCut
	}
	s.found = append(s.found, strings.ToValidUTF8(name, "\uFFFD"))
	return nil
}

func (s *hostSearch) visit(e entry) (bool, error) {
	if e.path == ".git" {
		if s.rebaseRunsCommands(e) {
			return false, s.report(".git/rebase-merge/git-rebase-todo")
		}
		return false, nil
	}
	isGit := strings.EqualFold(e.name, ".git")
	switch {
	case isGit && !e.typ.IsDir() && s.changed(e, ""):
		return false, s.report(e.path)
	case !e.typ.IsDir():
		return false, nil
	case isGit || s.bare(e):
		if s.repositoryChanged(e) {
			return false, s.report(e.path)
		}
		// Worktrees and modules in it lie deeper.
		return isGit, nil
	}
	return true, nil
}

// bare reports whether a directory is a git directory by git's own test.
func (s *hostSearch) bare(e entry) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		st, err := lstatAt(e.dir, path.Join(e.name, name))
		if err != nil || isDir(st) != (name != "HEAD") {
			return false
		}
	}
	return true
}

// rootChanged reports whether the tree became a bare repository: one that was
// there before has its configuration and hooks covered.
func (s *hostSearch) rootChanged(t *Tree, root entry) bool {
	if _, covered := t.guardedName("config"); covered {
		return false
	}
	return s.changed(root, "config") || s.changed(root, "HEAD") || s.changed(root, "hooks")
}

// repositoryChanged looks at the parts that host git executes or follows.
func (s *hostSearch) repositoryChanged(e entry) bool {
	for _, part := range []string{"", "HEAD", "config", "config.worktree", "commondir", "hooks", "info/attributes", "modules", "worktrees"} {
		if s.changed(e, part) {
			return true
		}
	}
	hooks, err := openAt(e.dir, path.Join(e.name, "hooks"), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer hooks.Close()
	names, _ := hooks.ReadDir(maxHooks)
	return slices.ContainsFunc(names, func(n fs.DirEntry) bool {
		return s.changed(entry{dir: hooks, name: n.Name()}, "")
	})
}

func (s *hostSearch) changed(e entry, part string) bool {
	st, err := lstatAt(e.dir, path.Join(e.name, part))
	return err == nil && !time.Unix(st.Ctim.Unix()).Before(s.since)
}

// rebaseRunsCommands reports an unfinished rebase of the tree's own repository
// whose todo list holds commands: `git rebase --continue` on the host runs them.
func (s *hostSearch) rebaseRunsCommands(e entry) bool {
	dir, err := openAt(e.dir, e.name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer dir.Close()
	sub, err := openDir(dir, "rebase-merge")
	if err != nil {
		return false
	}
	defer sub.Close()
	todo, err := readBounded(sub, "git-rebase-todo", maxConfigBytes)
	if err != nil || !s.changed(entry{dir: sub, name: "git-rebase-todo"}, "") {
		return false
	}
	for line := range strings.Lines(string(todo)) {
		if f := strings.Fields(line); len(f) > 0 && (f[0] == "exec" || f[0] == "x") {
			return true
		}
	}
	return false
}
