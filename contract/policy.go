package contract

import "slices"

// Mode is how the workspace is mounted.
type Mode string

// The workspace modes.
const (
	ReadOnly       Mode = "read-only"
	WorkspaceWrite Mode = "workspace-write"
)

// GitMode says whether a session may change the workspace's git directory.
type GitMode string

// The git modes.
const (
	GitRead  GitMode = "read"
	GitWrite GitMode = "write"
)

// UserMode says as whom programs run inside.
type UserMode string

// The user modes.
const (
	UserAgent UserMode = "agent"
	UserRoot  UserMode = "root"
)

// Effect is what a rule or a decision says.
type Effect string

// The effects, strongest first.
const (
	Deny  Effect = "deny"
	Ask   Effect = "ask"
	Allow Effect = "allow"
)

// Policy says what a session may do (policy.schema.json). The zero document
// `{}` is valid and closed; Decode fills every default in.
type Policy struct {
	Mode            Mode          `json:"mode"`
	Image           string        `json:"image"`
	Home            string        `json:"home"`
	Mounts          []Mount       `json:"mounts"`
	Git             GitMode       `json:"git"`
	User            UserMode      `json:"user"`
	AllowShell      bool          `json:"allowShell"`
	EgressAllow     []EgressEntry `json:"egressAllow"`
	EgressDefault   Effect        `json:"egressDefault"` // deny or ask
	Protect         []string      `json:"protect"`
	Unprotect       []string      `json:"unprotect"`
	Hide            []string      `json:"hide"`
	Env             []string      `json:"env"`
	Limits          Limits        `json:"limits"`
	StartupBudgetMs int64         `json:"startupBudgetMs"`
	ToolQueueMs     int64         `json:"toolQueueMs"`
	Gate            Gate          `json:"gate"`

	// Explicit lists the pointers of the keys that the document gave, sorted;
	// the values of all others are defaults.
	Explicit []string `json:"-"`
}

// IsExplicit reports whether the document gave the key at pointer.
func (p *Policy) IsExplicit(pointer string) bool {
	_, found := slices.BinarySearch(p.Explicit, pointer)
	return found
}

// DefaultPolicy is what `{}` means.
func DefaultPolicy() Policy {
	p, err := Decode[Policy]([]byte("{}"))
	if err != nil {
		panic("contract: the policy schema refuses {}")
	}
	return p
}

// Mount is a further host directory, at the same path inside.
type Mount struct {
	Path  string `json:"path"`
	Write bool   `json:"write"`
}

// EgressEntry is one destination that a session may reach.
type EgressEntry struct {
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Private bool   `json:"private"`
	SNI     bool   `json:"sni"`
}

// Limits bound one session. All are finite and positive.
type Limits struct {
	MemoryBytes int64   `json:"memoryBytes"`
	CPUs        float64 `json:"cpus"`
	Pids        int64   `json:"pids"`
	OpenFiles   int64   `json:"openFiles"`
	TmpBytes    int64   `json:"tmpBytes"`
	OutputBytes int64   `json:"outputBytes"` // per call
	ExecMs      int64   `json:"execMs"`      // per call
}

// Gate holds the policy's own rules for tool calls.
type Gate struct {
	Default    Effect     `json:"default"`
	Unknown    Effect     `json:"unknown,omitempty"` // "" = by door: ask under a hook, allow inside a session
	Rules      []GateRule `json:"rules"`
	DecisionMs int64      `json:"decisionMs"`
	HoldMs     int64      `json:"holdMs"`
}

// GateRule matches calls by fields that are ANDed.
type GateRule struct {
	ID     string   `json:"id"`
	Effect Effect   `json:"effect"`
	Tool   string   `json:"tool,omitempty"`
	Path   string   `json:"path,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Host   string   `json:"host,omitempty"`
	Action string   `json:"action,omitempty"`
}
