package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/policy"
)

// planMounts checks the policy's further directories against this machine and
// reports everything that is wrong with them together.
func (t *Tree) planMounts(ctx context.Context, _ string, d *draft) error {
	var wrong []contract.Violation
	seen := map[string]bool{}
	for i, m := range t.pol.Mounts {
		bind, err := t.place(ctx, m)
		if err == nil && seen[m.Path] {
			err = errors.New("is listed twice")
		}
		if err == nil && overlapsGit(d, bind) {
			err = errors.New("overlaps the workspace's git directory")
		}
		pointer := "/mounts/" + strconv.Itoa(i)
		if e, ok := errors.AsType[*contract.Error](err); ok {
			return e
		} else if err != nil {
			wrong = append(wrong, contract.Violation{Pointer: pointer + "/path", Rule: err.Error()})
			continue
		}
		seen[m.Path] = true
		d.mounts = append(d.mounts, Mount{Bind: bind, Rule: pointer, Why: "a further directory of the policy", IsDir: true})
	}
	if wrong == nil {
		return nil
	}
	return &contract.Error{Code: contract.SchemaInvalid, Reason: contract.SchemaInvalid.Reason(), Violations: wrong}
}

func overlapsGit(d *draft, b container.Bind) bool {
	for _, m := range d.mounts {
		if m.Role == roleGit && (contains(m.Source, b.Source) || contains(b.Source, m.Source)) {
			return true
		}
	}
	return false
}

// place checks one further directory as given and as resolved. The texts of its errors are fixed phrases.
func (t *Tree) place(ctx context.Context, m contract.Mount) (container.Bind, error) {
	none := container.Bind{}
	if err := policy.MountPath(m.Path, m.Write, t.host); err != nil {
		return none, err
	}
	real, err := filepath.EvalSymlinks(m.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, errors.New("does not exist")
	case err != nil:
		return none, errors.New("cannot be resolved")
	}
	if err := policy.MountPath(real, m.Write, t.host); err != nil {
		return none, err
	}
	for _, p := range []string{m.Path, real} {
		if contains(t.root, p) || contains(p, t.root) {
			return none, errors.New("overlaps the workspace")
		}
	}
	dir, err := os.OpenFile(real, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return none, errors.New("is not a directory")
	case err != nil:
		return none, errors.New("cannot be opened by this user")
	}
	defer dir.Close()
	if err := t.placeAliases(dir); err != nil {
		return none, err
	}
	if err := t.placeHolds(ctx, dir, real); err != nil {
		return none, err
	}
	st, err := fstat(dir)
	if err != nil {
		return none, errors.New("cannot be examined")
	}
	return container.Bind{
		Source: real, Destination: m.Path, Write: m.Write, Exec: true,
		Owned: int(st.Uid) == t.uid, Role: roleMount,
	}, nil
}

// placeAliases refuses another name (a bind mount) of what is never mounted.
func (t *Tree) placeAliases(dir *os.File) error {
	never := map[fileID]bool{t.id: true}
	for _, p := range append([]string{"/proc", "/sys", "/dev", "/run", "/etc"}, t.host.Forbidden...) {
		addID(never, p)
	}
	for _, name := range []string{".ssh", ".gnupg", ".aws", ".kube", ".docker", ".config/gcloud", ".config/gh"} {
		if t.host.Home != "" {
			addID(never, filepath.Join(t.host.Home, name))
		}
	}
	return climb(dir, func(id fileID) error {
		if never[id] {
			return errors.New("is another name of a place that is never mounted")
		}
		return nil
	})
}

// placeHolds looks into the directory, not deep: a credential store or a socket
// in it comes along with it. A read-only mount does not keep a program from connecting.
func (t *Tree) placeHolds(ctx context.Context, dir *os.File, real string) error {
	ctx, cancel := context.WithTimeout(ctx, policy.OwnWalkMs*time.Millisecond)
	defer cancel()
	err := walk(ctx, dir, 2, func(e entry) (bool, error) {
		switch {
		case e.typ&fs.ModeSocket != 0:
			return false, errors.New("contains a socket")
		case e.typ.IsDir() && policy.MountPath(filepath.Join(real, e.path), false, policy.Host{}) != nil:
			return false, errors.New("contains a credential store")
		}
		return true, nil
	})
	if errors.Is(err, errCut) {
		return errors.New("has more names than could be looked through within 5 s")
	}
	return err
}
