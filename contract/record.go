package contract

import "time"

// State is one of the six states of a session.
type State string

// The six states; Stopped and Failed are terminal.
const (
	Pending  State = "pending"
	Starting State = "starting"
	Ready    State = "ready"
	Stopping State = "stopping"
	Stopped  State = "stopped"
	Failed   State = "failed"
)

// SessionRecord is the six-state record of a session (session-record.schema.json).
type SessionRecord struct {
	RealmID           string  `json:"realmId"`
	SessionID         string  `json:"sessionId"`
	WorkspaceRoot     string  `json:"workspaceRoot"`
	State             State   `json:"state"`
	ControlSocketPath string  `json:"controlSocketPath"`
	ContainerID       *string `json:"containerId"` // null until the container exists
}

// OutcomeSource says whose doing the end of a session was.
type OutcomeSource string

// The sources of an Outcome.
const (
	FromWorkload OutcomeSource = "workload"
	FromRealm    OutcomeSource = "realm"
	FromEngine   OutcomeSource = "engine"
)

// Outcome says how a session or an attached command ended. ExitCode is null
// when nobody knows it; it is never guessed.
type Outcome struct {
	Source   OutcomeSource `json:"source"`
	ExitCode *int          `json:"exitCode"`
	Signal   string        `json:"signal,omitempty"` // "SIGKILL"
	Reason   string        `json:"reason,omitempty"` // fixed phrase
	Error    *Error        `json:"error,omitempty"`
}

// Condition says what is true of a session meanwhile.
type Condition struct {
	Type    string    `json:"type"` // GateReady, EgressReady, ProtectionLost, HidePartial …
	Status  bool      `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// Probe is the result of one isolation probe.
type Probe struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// AppliedLimit is a limit as asked and as read back from the kernel.
type AppliedLimit struct {
	Name    string   `json:"name"` // memoryBytes, cpus, pids, openFiles, tmpBytes
	Asked   float64  `json:"asked"`
	InForce *float64 `json:"inForce"`          // null: not enforced
	By      string   `json:"by,omitempty"`     // cgroup, rlimit, tmpfs
	Detail  string   `json:"detail,omitempty"` // why it is weaker than asked
}

// EngineInfo names the engine and runtime that run a session.
type EngineInfo struct {
	Podman     string   `json:"podman"`
	Runtime    string   `json:"runtime,omitempty"` // "crun 1.21"
	Rootless   bool     `json:"rootless"`
	Cgroups    string   `json:"cgroups,omitempty"` // "v1", "v2"
	KnownHoles []string `json:"knownHoles"`
}

// ImageInfo says what the root file system is made of.
type ImageInfo struct {
	Ref    string `json:"ref"` // "host" or an OCI reference
	Digest string `json:"digest,omitempty"`
}

// HeldBack is a path that realm kept from the host at stop.
type HeldBack struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// BackgroundCall lists a call whose processes outlive its program.
type BackgroundCall struct {
	CallID    string `json:"callId"`
	Processes int    `json:"processes"`
}

// SessionDetail is all that realm tells about a session (session-detail.schema.json).
type SessionDetail struct {
	Record       SessionRecord    `json:"record"`
	CreatedAt    time.Time        `json:"createdAt"`
	ReadyAt      *time.Time       `json:"readyAt"`
	EndedAt      *time.Time       `json:"endedAt"`
	Outcome      *Outcome         `json:"outcome"`
	Mode         Mode             `json:"mode"`
	Git          GitMode          `json:"git"`
	PolicyDigest string           `json:"policyDigest"` // sha256:… of the canonical policy
	Image        ImageInfo        `json:"image"`
	Engine       *EngineInfo      `json:"engine"`
	Egress       string           `json:"egress"` // "none": nothing is reachable
	Conditions   []Condition      `json:"conditions"`
	Probes       []Probe          `json:"probes"`
	Limits       []AppliedLimit   `json:"limits"`
	Background   []BackgroundCall `json:"background"`
	HeldBack     []HeldBack       `json:"heldBack"`
	Degraded     []string         `json:"degraded"` // every weakening, by name
}
