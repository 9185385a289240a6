package workspace

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/internal/lazyregexp"
)

// Plan is what a session sees of the tree: bind mounts in order, and what had
// to be made for them. It is plain data: a realm that takes a session over
// reads it from the session's directory.
type Plan struct {
	Session  string `json:"session"`
	Root     string `json:"root"`
	StateDir string `json:"stateDir"`

	Workspace container.Bind `json:"workspace"`
	// Unwritable says that the mode of the workspace keeps programs from making
	// names in it, although its mount is writable.
	Unwritable bool                 `json:"unwritable,omitempty"`
	Mounts     []Mount              `json:"mounts"`
	Conditions []contract.Condition `json:"conditions"`
	Degraded   []string             `json:"degraded"`
	// Quarantine is the directory that is mounted on .git of a tree that has none.
	Quarantine string `json:"quarantine,omitempty"`
	// Roots are the trees that hold placeholders of this plan.
	Roots []string `json:"roots"`
	// RootPrograms says that programs run with the supervisor's own ids.
	RootPrograms bool      `json:"rootPrograms,omitempty"`
	Guarded      []Guarded `json:"guarded"`
	Made         time.Time `json:"made"`

	owner [2]int
}

// Guarded is a file or directory that the session may not reach under any
// name: hidden, or only for writes.
type Guarded struct {
	ID     fileID `json:"id"`
	Birth  int64  `json:"birth,omitempty"`
	Rule   string `json:"rule"`
	Hidden bool   `json:"hidden"`
	// Path is the name below the workspace of what only git's own files name: no
	// rule of the policy matches it when the host replaces the file.
	Path string `json:"path,omitempty"`
}

// CoverDir is where the covers of hidden names are inside: what Rebind covers a
// name with has to be there already.
const CoverDir = container.CoverDir

var sessionID = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,62}$`)

// draft collects what a plan is made of, before anything is made.
type draft struct {
	trees      map[string]*treeDraft // by root: the workspace, a git directory elsewhere
	mounts     []Mount               // of whole directories elsewhere
	conditions []contract.Condition
	degraded   []string
	quarantine string
	followed   int // names that host git's own files lead to
	linked     map[fileID]linked
}

// treeDraft collects what one tree needs.
type treeDraft struct {
	covers       []cover
	placeholders []placeholder
}

func (d *draft) tree(root string) *treeDraft {
	if d.trees == nil {
		d.trees = map[string]*treeDraft{}
	}
	if d.trees[root] == nil {
		d.trees[root] = &treeDraft{}
	}
	return d.trees[root]
}

func (td *treeDraft) cover(c cover) { td.covers = append(td.covers, c) }

// want asks for p, and for the directories above it, where they are missing.
func (td *treeDraft) want(p placeholder) {
	for i, c := range p.path {
		if c == '/' {
			td.wantOne(placeholder{path: p.path[:i], isDir: true})
		}
	}
	td.wantOne(p)
}

func (td *treeDraft) wantOne(p placeholder) {
	if !slices.ContainsFunc(td.placeholders, func(have placeholder) bool { return have.path == p.path }) {
		td.placeholders = append(td.placeholders, p)
	}
}

// writable reports whether a session may write in the tree.
func (t *Tree) writable() bool { return t.pol.Mode == contract.WorkspaceWrite }

// Plan decides what the session sees, makes the placeholders, the quarantine
// and the named home, and puts the plan in force for Resolve. Whoever calls it
// calls Release later, also when the session never starts.
func (t *Tree) Plan(ctx context.Context, session string) (*Plan, error) {
	if !sessionID.MatchString(session) {
		return nil, contract.Errorf(contract.Internal, "the session id is not one")
	}
	d := &draft{}
	for _, step := range []func(context.Context, string, *draft) error{
		t.planCover, t.planGit, t.planFollowed, t.planProtect, t.planHide, t.planHardLinks, t.planMounts, t.planHome,
	} {
		if err := step(ctx, session, d); err != nil {
			return nil, err
		}
	}
	p := &Plan{
		Session: session, Root: t.root, StateDir: t.opts.StateDir, Made: time.Now(),
		RootPrograms: t.pol.User == contract.UserRoot,
		Workspace: container.Bind{
			Source: t.root, Destination: t.root, Write: t.writable(), Exec: true, Owned: true, Role: roleWorkspace,
		},
		Conditions: append([]contract.Condition{}, d.conditions...),
		Degraded:   append([]string{}, d.degraded...),
		Quarantine: d.quarantine,
		Unwritable: t.writable() && !t.rootWritable(t.dir),
		owner:      [2]int{t.uid, t.gid},
	}
	for root := range d.trees {
		p.Roots = append(p.Roots, root)
	}
	slices.Sort(p.Roots)
	if err := t.make(ctx, p, d); err != nil {
		return nil, releaseAfter(p, err)
	}
	t.guard(p.Guarded)
	return p, nil
}

func releaseAfter(p *Plan, err error) error {
	_ = p.Release() // the ledger still has what could not be undone; gc will
	return err
}

// make makes what d wants, then looks at what the covers cover.
func (t *Tree) make(ctx context.Context, p *Plan, d *draft) error {
	if d.quarantine != "" {
		if err := ownDir(d.quarantine, p.owner); err != nil {
			return err
		}
	}
	for _, root := range p.Roots {
		mounts, err := t.makeIn(ctx, p, root, d.trees[root])
		if err != nil {
			return err
		}
		p.Mounts = append(p.Mounts, mounts...)
	}
	p.Mounts = append(p.Mounts, d.mounts...)
	slices.SortStableFunc(p.Mounts, func(a, b Mount) int { return comparePaths(a.Destination, b.Destination) })
	return nil
}

// makeIn makes the placeholders of one tree and lays its mounts out.
func (t *Tree) makeIn(ctx context.Context, p *Plan, root string, td *treeDraft) ([]Mount, error) {
	dir, err := os.OpenFile(root, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, ioError(err, "the workspace could not be opened")
	}
	defer dir.Close()
	if st, err := fstat(dir); err != nil || root == t.root && idOf(st) != t.id {
		return nil, refuseWorkspace(err, "changed while the session was prepared")
	}
	l, err := openLedger(ctx, p.StateDir, root)
	if err != nil {
		return nil, err
	}
	defer l.close()
	ours, err := l.acquire(dir, p.Session, td.placeholders, p.owner)
	if err != nil {
		return nil, err
	}
	covers, err := t.settle(dir, td.covers, p)
	if err != nil {
		return nil, err
	}
	for i := range covers {
		if c := &covers[i]; ours[c.path] && c.source == "" && c.role != rolePin {
			c.role, c.why = rolePlaceholder, "is missing: keeps the session from making it"
		}
	}
	mounts := layout(root, t.writable(), covers)
	t.close(root, mounts)
	return mounts, nil
}

// settle looks at each covered name once more: its type decides what covers it,
// and its inode is guarded under any other name. A hidden name that is gone needs no cover.
func (t *Tree) settle(dir *os.File, covers []cover, p *Plan) ([]cover, error) {
	var out []cover
	for _, c := range covers {
		st, err := lstatRel(dir, c.path)
		switch {
		case err != nil && c.role == roleHide:
			continue
		case err != nil:
			return nil, ioError(err, "a protected name changed while the session was prepared")
		case !utf8.ValidString(c.path):
			return nil, contract.Errorf(contract.PathRefused, "%s: a name is not valid UTF-8, which the engine cannot mount on", c.rule).WithHint("rename it")
		case isLink(st) && c.role == roleHide:
			continue // it leads nowhere, or to what is not in the session
		case isLink(st):
			return nil, refuseLink(c.rule)
		case c.source != "" && c.role == roleGit && !emptyDir(dir, c.path):
			return nil, contract.Errorf(contract.PathRefused, "a .git was made while the session was prepared").WithHint("start the session again")
		}
		c.isDir = isDir(st)
		if c.role == roleHide {
			c.source = coverFile(t.opts.StateDir, c.isDir)
		}
		if c.role == roleHide || !c.write {
			p.Guarded = append(p.Guarded, t.guardedAt(dir, c, st))
		}
		out = append(out, c)
	}
	return out, nil
}

func (t *Tree) guardedAt(root *os.File, c cover, st *unix.Stat_t) Guarded {
	g := Guarded{ID: idOf(st), Rule: c.rule, Hidden: c.role == roleHide}
	if dir, base, err := openParent(root, c.path); err == nil {
		g.Birth = birth(dir, base)
		dir.Close()
	}
	if st, err := fstat(root); err == nil && idOf(st) == t.id && c.role == roleGit {
		g.Path = c.path
	}
	return g
}

// refuseLink says why a protected name that is a link refuses the start.
func refuseLink(rule string) error {
	return contract.Errorf(contract.PathRefused, "%s: the name, or one above it, is a symbolic link, which no mount can hold in place", rule).
		WithHint("replace the link by what it points to, or take the name out of protect (unprotect for a built-in one)")
}

// Binds are the mounts for the container's spec, in order.
func (p *Plan) Binds() []container.Bind {
	out := make([]container.Bind, len(p.Mounts))
	for i, m := range p.Mounts {
		out[i] = m.Bind
	}
	return out
}

// Release gives back what Plan made: placeholders that no other session needs
// and that nobody has put to use, and the quarantine when it is empty. It may be
// called again.
func (p *Plan) Release() error {
	var errs []error
	for _, root := range p.Roots {
		errs = append(errs, releasePlaceholders(context.Background(), p.StateDir, root, func(s string) bool { return s == p.Session }))
	}
	errs = append(errs, dropQuarantine(p.StateDir, p.Session))
	return joinErrors(errs)
}

// planCover makes the covers and mounts them where Rebind finds them.
func (t *Tree) planCover(_ context.Context, _ string, d *draft) error {
	if err := makeCovers(t.opts.StateDir); err != nil {
		return err
	}
	d.mounts = append(d.mounts, Mount{
		Bind: container.Bind{Source: filepath.Join(t.opts.StateDir, "cover"), Destination: CoverDir, Role: roleCover},
		Why:  "an empty file and an empty directory, for names that have to be covered later", IsDir: true,
	})
	return nil
}

// planHome finds or makes the named home.
func (t *Tree) planHome(_ context.Context, _ string, d *draft) error {
	if t.pol.Home == "" || t.pol.Home == "ephemeral" {
		return nil
	}
	dir := filepath.Join(t.opts.StateDir, "homes", t.pol.Home)
	if err := ownDir(dir, [2]int{t.uid, t.gid}); err != nil {
		return violation("/home", "the named home cannot be used by the owner of this workspace", err)
	}
	d.mounts = append(d.mounts, Mount{
		Bind: container.Bind{Source: dir, Destination: t.opts.HomeInside, Write: true, Exec: true, Owned: true, Role: roleHome},
		Rule: "/home", Why: "the named home", IsDir: true,
	})
	return nil
}

// violation is a policy entry that cannot be enforced here.
func violation(pointer, rule string, cause error) error {
	return &contract.Error{
		Code: contract.SchemaInvalid, Reason: contract.SchemaInvalid.Reason(),
		Violations: []contract.Violation{{Pointer: pointer, Rule: rule}}, Cause: cause,
	}
}
