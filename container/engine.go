// Package container is the engine-neutral view of containers: what realm asks
// of an engine and the Spec of the one container that a session is. It knows
// no engine; container/podman drives Podman, containertest holds a fake and the
// suite that both pass.
package container

import (
	"context"
	"time"

	"realm.dev/contract"
)

// Labels that mark a container as ours.
const (
	LabelRealm   = "dev.realm.realm-id"
	LabelSession = "dev.realm.session-id"
	LabelEpoch   = "dev.realm.epoch"
	LabelBase    = "dev.realm.uid-base" // first host id of the session's range, rootful
)

// Engine drives containers. Every method is safe for concurrent use, honours
// ctx, and returns *contract.Error: PODMAN_UNAVAILABLE when the engine does not
// answer or failed the request (with the cause of ctx when that ended),
// SESSION_NOT_FOUND when there is no such container, SESSION_STATE when it does
// not run and must, IMAGE_UNAVAILABLE for an image that cannot be had, and
// ISOLATION_UNPROVEN when the sandbox is not, or cannot be, what was asked.
type Engine interface {
	// Version tells who the engine is. It fails with
	// PODMAN_UNSUPPORTED_VERSION below 5.0.0, before anything was created.
	Version(ctx context.Context) (Info, error)
	// EnsureImage makes ref available and returns its digest and configuration.
	// Progress may be nil.
	EnsureImage(ctx context.Context, ref string, progress func(Progress)) (Image, error)
	// Create makes the container of s without starting anything. Creating the
	// same Spec again (same name and session label) is a success.
	Create(ctx context.Context, s *Spec) (id string, err error)
	// Init makes the container's namespaces and mounts; PID 1 exists, the
	// workload has not begun. Doing it again is a success.
	Init(ctx context.Context, id string) error
	// Start lets PID 1 run, and does Init before where that was left out. Doing
	// it again is a success.
	Start(ctx context.Context, id string) error
	// Verify compares what the engine set up with what s asks for: after Create
	// what the engine tells, after Init also what the runtime was given and what
	// the kernel shows. It fails with ISOLATION_UNPROVEN at the first difference.
	Verify(ctx context.Context, id string, s *Spec) error
	// ReadBack reads from the kernel, after Start, that PID 1 is confined as s
	// asks and which limits are in force. It fails with ISOLATION_UNPROVEN when
	// PID 1 is not confined, and when memory or pids have no limit although s
	// does not allow that.
	ReadBack(ctx context.Context, id string, s *Spec) ([]contract.AppliedLimit, error)
	// Wait blocks until the container has ended.
	Wait(ctx context.Context, id string) (ExitStatus, error)
	// Signal sends sig to PID 1.
	Signal(ctx context.Context, id string, sig int) error
	// Remove kills and removes the container at once. Removing one that is not
	// there is a success.
	Remove(ctx context.Context, id string) error
	// Inspect reads the container's state.
	Inspect(ctx context.Context, id string) (Status, error)
	// List returns the containers that carry all labels, running or not. An
	// empty value matches any.
	List(ctx context.Context, labels map[string]string) ([]Status, error)
	// Events streams what happens to containers that carry all labels until
	// ctx ends; the channel is closed then, or when the engine went away.
	Events(ctx context.Context, labels map[string]string) (<-chan Event, error)
	// Close ends the connection and the service that the engine started itself.
	Close() error
}

// Info says who the engine is and what the host can enforce.
type Info struct {
	Version        string // "5.4.2"
	Runtime        string // "crun"
	RuntimeVersion string // "1.21"
	RuntimePath    string
	Rootless       bool
	CgroupVersion  string   // "v1", "v2"
	Controllers    []string // cgroup controllers that limits can use
	SELinux        bool     // enforcing
	GraphRoot      string   // the engine's storage, not to be shown to a session
	RunRoot        string
	IdmapShifting  bool     // the storage driver can shift ids
	KnownHoles     []string // names of published holes of these versions
	SubUIDs        uint64   // size of the caller's subordinate range; 0 rootful
}

// Image is a container image that is here.
type Image struct {
	ID     string
	Digest string
	Env    []string // NAME=value, for programs, never for init
}

// Progress of a pull. Total is 0 while it is not known.
type Progress struct {
	Layer       string
	Done, Total int64
	Message     string
}

// Status is an engine's view of one container.
type Status struct {
	ID        string
	Name      string
	Labels    map[string]string
	State     State
	Pid       int // PID 1 in our pid namespace; 0 when not initialised
	ExitCode  *int
	StartedAt time.Time
	// CgroupPath is empty until start.
	CgroupPath string
}

// State is the OCI state of a container.
type State string

// The states, with the engine's own names.
const (
	Created     State = "created"
	Initialized State = "initialized"
	Running     State = "running"
	Paused      State = "paused"
	Exited      State = "exited"
)

// ExitStatus says how PID 1 ended; Code is null when the engine does not know.
type ExitStatus struct {
	Code *int
	At   time.Time
}

// Event is one thing that happened to a container.
type Event struct {
	ID     string
	Labels map[string]string
	Action string // "start", "died", "remove", "pause", "unpause"
	At     time.Time
}
