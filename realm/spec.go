package realm

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/container/idmap"
	"realm.dev/container/rootfs"
	"realm.dev/contract"
	"realm.dev/realm/workspace"
)

// imageHost is the policy's image that stands for this machine's own /usr.
const imageHost = "host"

// supervisorPids is what PID 1 and the subreapers of calls need beside the
// policy's pids, which count the programs.
const supervisorPids = 16 + 5*maxExecs

// spec writes down the session's container. The order of acquisition matters:
// the ids are given back after the container is gone.
func (s *Session) spec(ctx context.Context, b *box, link string) (*container.Spec, error) {
	doc := s.req.Policy.Policy()
	etc, err := s.writeEtc(b)
	if err != nil {
		return nil, err
	}
	user, err := s.user(ctx, b, doc.User == contract.UserRoot)
	if err != nil {
		return nil, err
	}
	spec := &container.Spec{
		RealmID: s.mgr.realmID, SessionID: s.id, Epoch: s.mgr.epoch,
		Init:      container.Init{Binary: s.mgr.init, SocketDir: link, Args: []string{socketPath}},
		User:      user,
		Workspace: b.plan.Workspace,
		Binds:     append(b.plan.Binds(), etc...),
		Tmpfs:     tmpfs(doc.Limits.TmpBytes),
		Limits: container.Limits{
			MemoryBytes: doc.Limits.MemoryBytes, CPUs: doc.Limits.CPUs,
			Pids: doc.Limits.Pids + supervisorPids, OpenFiles: doc.Limits.OpenFiles,
			AllowUnenforced: s.req.AllowUnenforced,
		},
		Hostname:       hostname(s.id),
		SeccompProfile: filepath.Join(b.dir, "seccomp.json"),
	}
	if doc.Image != imageHost {
		spec.Image = b.image.ID
		return spec, nil
	}
	usr, err := rootfs.HostBinds()
	if err != nil {
		return nil, err
	}
	spec.Rootfs = filepath.Join(b.dir, "root")
	spec.Binds = append(usr, spec.Binds...)
	return spec, nil
}

// user decides how ids map: by the engine's keep-id when rootless, else by a
// private range with the workspace idmapped into it where its file system can.
func (s *Session) user(ctx context.Context, b *box, root bool) (container.User, error) {
	uid, gid := s.tree.Owner()
	u := container.User{OwnerUID: uid, OwnerGID: gid, Root: root}
	if s.mgr.info.Rootless {
		if int(uid) != os.Getuid() {
			return u, contract.Errorf(contract.PathRefused, "the workspace belongs to another user").
				WithHint("run realm as the workspace's owner")
		}
		return u, nil
	}
	var err error
	if u.Idmap, err = idmappable(b.plan); err != nil {
		return u, err
	}
	u.Base, err = s.acquireIDs(ctx, b)
	return u, err
}

// idmappable reports whether every bind that shows the owner's files as the
// program's lies on a file system that can be mounted with ids mapped.
func idmappable(p *workspace.Plan) (bool, error) {
	asked := map[uint64]bool{} // by device
	for _, bind := range append(p.Binds(), p.Workspace) {
		var st unix.Stat_t
		if err := unix.Stat(bind.Source, &st); err != nil {
			return false, contract.Errorf(contract.IsolationUnproven, "what is to be mounted is not there").WithCause(err)
		}
		if !bind.Owned || asked[st.Dev] {
			continue
		}
		asked[st.Dev] = true
		if ok, err := idmap.Supported(dirOf(bind.Source, &st)); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// dirOf is a directory on the file system of path.
func dirOf(path string, st *unix.Stat_t) string {
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return path
	}
	return filepath.Dir(path)
}

// acquireIDs takes a range of host ids that no other session has, nor a container
// that a killed realm has left.
func (s *Session) acquireIDs(ctx context.Context, b *box) (uint32, error) {
	list, err := s.mgr.engine.List(ctx, map[string]string{container.LabelBase: ""})
	if err != nil {
		return 0, err
	}
	r, err := idmap.Acquire(idmap.Dir, func(base uint32) bool {
		return slices.ContainsFunc(list, func(c container.Status) bool {
			return c.Labels[container.LabelBase] == strconv.FormatUint(uint64(base), 10)
		})
	})
	if err != nil {
		return 0, err
	}
	b.undo.Add("ids", func(context.Context) error { return r.Release() })
	return r.Base, nil
}

// hostname is short: a kernel host name has at most 64 characters.
func hostname(id string) string { return id[:min(len(id), 63)] }

// tmpfs lists the session's memory file systems. What is in them counts against
// the memory limit as well.
func tmpfs(size int64) []container.Tmpfs {
	const small = 16 << 20
	return []container.Tmpfs{
		{Destination: "/tmp", SizeBytes: size},
		{Destination: "/home", SizeBytes: size, Mode: 0o1777},
		{Destination: "/var/tmp", SizeBytes: max(size/4, small)},
		{Destination: "/dev/shm", SizeBytes: max(size/8, small), NoExec: true},
		{Destination: "/run", SizeBytes: small, NoExec: true},
	}
}

// writeEtc writes the session's own name files: nothing resolves but localhost.
func (s *Session) writeEtc(b *box) ([]container.Bind, error) {
	dir := filepath.Join(b.dir, "etc")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, diskError(err)
	}
	name := hostname(s.id)
	files := map[string]string{
		"hosts":       "127.0.0.1 localhost " + name + "\n::1 localhost " + name + "\n",
		"resolv.conf": "# this session has no network\n",
		"hostname":    name + "\n",
	}
	var binds []container.Bind
	for f, text := range files {
		src := filepath.Join(dir, f)
		// #nosec G306 -- programs of another host id read it.
		if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
			return nil, diskError(err)
		}
		binds = append(binds, container.Bind{Source: src, Destination: "/etc/" + f, Role: "etc"})
	}
	slices.SortFunc(binds, func(x, y container.Bind) int { return cmp.Compare(x.Destination, y.Destination) })
	return binds, nil
}
