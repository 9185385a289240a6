package realm

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/policy"
	"realm.dev/realm/control"
	"realm.dev/realm/workspace"
)

// Options of a Manager.
type Options struct {
	Dirs       Dirs
	Engine     container.Engine // its Close is the Manager's to call
	InitBinary string           // realm-init on the host
	Logger     *slog.Logger     // nil: discard
	KeepDead   bool             // leave what dead sessions left for Sweep
}

// Request asks for a session.
type Request struct {
	Policy    *policy.Compiled
	Workspace string
	SessionID string            // "": made
	Env       map[string]string // for every program of the session
	// SearchPath is the caller's PATH: what of it the session shows is searched.
	SearchPath []string
	// AllowUnenforced names limits that may go without enforcement on this host.
	AllowUnenforced []string
}

// Manager creates sessions and sweeps what dead ones left.
type Manager struct {
	dirs    Dirs
	realmID string
	epoch   string
	engine  container.Engine
	info    container.Info
	init    string
	log     *slog.Logger

	ctx    context.Context //nolint:containedctx // the life of all its sessions
	cancel context.CancelFunc

	mu       sync.Mutex
	sessions map[string]*Session
	closing  bool

	// ownerGrace is how long PID 1 waits for an owner; 0 is its own default.
	ownerGrace time.Duration

	// step is told each step of a session's life before it happens; tests kill
	// the process there.
	step func(name string)
}

func (m *Manager) at(step string) {
	if m.step != nil {
		m.step(step)
	}
}

// Open makes realm's directories, checks the engine, and sweeps what dead
// sessions left behind.
func Open(ctx context.Context, o Options) (*Manager, error) {
	if err := o.Dirs.Ensure(); err != nil {
		return nil, err
	}
	realmID, err := o.Dirs.realmID()
	if err != nil {
		return nil, err
	}
	info, err := o.Engine.Version(ctx)
	if err != nil {
		return nil, err
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		dirs: o.Dirs, realmID: realmID, epoch: randomID(12), engine: o.Engine, info: info,
		init: o.InitBinary, log: log, sessions: map[string]*Session{},
	}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if o.KeepDead {
		return m, nil
	}
	if _, err := m.Sweep(ctx, false); err != nil {
		log.Warn("the sweep of dead sessions did not finish", "err", err)
	}
	return m, nil
}

// Info says which engine runs the sessions.
func (m *Manager) Info() container.Info { return m.info }

// Create begins a session: its record is on disk as pending and its control
// socket answers when Create returns; it then starts by itself (WaitReady).
func (m *Manager) Create(ctx context.Context, req Request) (*Session, error) {
	if req.SessionID == "" {
		req.SessionID = newSessionID()
	}
	if !validID(req.SessionID) {
		return nil, contract.Errorf(contract.SchemaInvalid, "a session id is made of a-z, 0-9 and -, at most 63 characters")
	}
	for _, name := range req.AllowUnenforced {
		if !slices.Contains(unenforceable, name) {
			return nil, contract.Errorf(contract.SchemaInvalid, "only memory and pids may go without enforcement")
		}
	}
	s, err := m.newSession(req)
	if err != nil {
		return nil, err
	}
	if err := m.admit(s); err != nil {
		discard(s)
		return nil, err
	}
	m.at("record")
	s.server = control.Serve(s.listener, s, control.Options{Logger: s.log})
	go s.own()
	go func() {
		<-s.server.Done() // a while after the session is over
		m.forget(s)
	}()
	s.report(report{fact: begin})
	return s, nil
}

func (m *Manager) admit(s *Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closing {
		return contract.Errorf(contract.SessionState, "this realm is closing")
	}
	m.sessions[s.id] = s
	return nil
}

func (m *Manager) forget(s *Session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, s.id)
}

// Close stops every session, waits for them, and lets the engine go.
func (m *Manager) Close(ctx context.Context) error {
	m.mu.Lock()
	m.closing = true
	var open []*Session
	for _, s := range m.sessions {
		open = append(open, s)
	}
	m.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range open {
		wg.Go(func() {
			_, _ = s.Stop(ctx, 0)
			_ = s.server.Close(ctx)
		})
	}
	wg.Wait()
	m.cancel()
	return m.engine.Close()
}

// newSession makes everything of a session that must exist before its first
// transition: the directory, the lock, the record, the socket.
func (m *Manager) newSession(req Request) (*Session, error) {
	tree, err := m.openTree(req)
	if err != nil {
		return nil, err
	}
	socket := m.dirs.socket(m.realmID, req.SessionID)
	st, err := m.dirs.createStore(req.SessionID)
	if err != nil {
		return nil, errors.Join(err, tree.Close())
	}
	s := &Session{
		id: req.SessionID, mgr: m, req: req, store: st, tree: tree,
		log:   m.log.With("session", req.SessionID),
		facts: make(chan report), quit: make(chan struct{}),
		ready: make(chan struct{}), done: make(chan struct{}),
		execs: make(chan struct{}, maxExecs), watchers: map[chan contract.SessionRecord]struct{}{},
	}
	s.detail = m.firstDetail(s, tree.Root(), socket)
	if err := errors.Join(st.pending(&s.detail), st.started(m.epoch, &s.detail)); err != nil {
		st.discard()
		return nil, errors.Join(err, tree.Close())
	}
	if s.listener, err = control.Listen(socket); err != nil {
		st.discard()
		return nil, errors.Join(err, tree.Close())
	}
	return s, nil
}

// openTree resolves and checks the workspace.
func (m *Manager) openTree(req Request) (*workspace.Tree, error) {
	if v := req.Policy.Enforceable(Features); len(v) > 0 {
		return nil, contract.Invalid(v...).WithHint("this build of realm cannot enforce that; remove it from the policy")
	}
	home, _ := os.UserHomeDir()
	return workspace.Open(req.Workspace, workspace.Options{
		StateDir: m.dirs.State, RuntimeDir: m.dirs.Runtime,
		Home: home, HomeInside: homeInside,
		Forbidden: []string{m.info.GraphRoot, m.info.RunRoot},
		Policy:    req.Policy,
	})
}

// unenforceable are the limits that a caller may do without.
var unenforceable = []string{"memory", "pids"}

// Features are what this build can enforce. Egress and the gate's deciders are
// not among them: a policy that needs them is refused at its pointer.
var Features = policy.Features{UserRoot: true, MemoryLimit: true, CPULimit: true, PidsLimit: true}

// firstDetail is what is known of a session before anything exists.
func (m *Manager) firstDetail(s *Session, root, socket string) contract.SessionDetail {
	doc := s.req.Policy.Policy()
	return contract.SessionDetail{
		Record: contract.SessionRecord{
			RealmID: m.realmID, SessionID: s.id, WorkspaceRoot: root,
			State: contract.Pending, ControlSocketPath: socket,
		},
		CreatedAt: time.Now().UTC(), Mode: doc.Mode, Git: doc.Git,
		PolicyDigest: s.req.Policy.Digest(), Image: contract.ImageInfo{Ref: doc.Image},
		Engine: &contract.EngineInfo{
			Podman: m.info.Version, Runtime: m.info.Runtime + " " + m.info.RuntimeVersion,
			Rootless: m.info.Rootless, Cgroups: m.info.CgroupVersion,
			KnownHoles: append([]string{}, m.info.KnownHoles...),
		},
		Egress: "none", Conditions: []contract.Condition{}, Probes: []contract.Probe{},
		Limits: []contract.AppliedLimit{}, Background: []contract.BackgroundCall{},
		HeldBack: []contract.HeldBack{}, Degraded: []string{},
	}
}

// discard takes back a session that never began.
func discard(s *Session) {
	_ = s.listener.Close()
	_ = s.tree.Close()
	s.store.discard()
}
