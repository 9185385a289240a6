package contract

import "time"

// FirstPrev is AuditEntry.Prev of a journal's first line.
const FirstPrev = "0000000000000000000000000000000000000000000000000000000000000000"

// AuditKind names what a line of the journal tells; the line's body is the
// field of that name.
type AuditKind string

// The kinds of line.
const (
	KindStart      AuditKind = "start"
	KindTransition AuditKind = "transition"
	KindIntent     AuditKind = "intent"
	KindOutcome    AuditKind = "outcome"
	KindDecision   AuditKind = "decision"
	KindEgress     AuditKind = "egress"
	KindApproval   AuditKind = "approval"
)

// AuditEntry is one line of a session's journal (audit-entry.schema.json). It
// holds what is needed to decide again, never content, environment or argument
// text.
type AuditEntry struct {
	Seq        int64            `json:"seq"`
	Time       time.Time        `json:"time"`
	Prev       string           `json:"prev"` // sha256 of the line before, without its newline
	Session    string           `json:"session"`
	Kind       AuditKind        `json:"kind"`
	Start      *AuditStart      `json:"start,omitempty"`
	Transition *AuditTransition `json:"transition,omitempty"`
	Intent     *AuditIntent     `json:"intent,omitempty"`
	Outcome    *AuditOutcome    `json:"outcome,omitempty"`
	Decision   *AuditDecision   `json:"decision,omitempty"`
	Egress     *AuditEgress     `json:"egress,omitempty"`
	Approval   *AuditApproval   `json:"approval,omitempty"`
}

// AuditStart holds the facts that a session started from.
type AuditStart struct {
	Realm         string      `json:"realm"` // realm's version
	Epoch         string      `json:"epoch"`
	WorkspaceRoot string      `json:"workspaceRoot"`
	Mode          Mode        `json:"mode"`
	Git           GitMode     `json:"git"`
	PolicyDigest  string      `json:"policyDigest"`
	Image         ImageInfo   `json:"image"`
	Engine        *EngineInfo `json:"engine"` // null until it was asked
}

// AuditTransition is a change of state.
type AuditTransition struct {
	From        State   `json:"from,omitempty"` // none for the first
	To          State   `json:"to"`
	Why         string  `json:"why,omitempty"`
	Code        Code    `json:"code,omitempty"`
	ContainerID *string `json:"containerId"`
}

// AuditIntent is written before a call runs.
type AuditIntent struct {
	CallID      string   `json:"callId"`
	Door        Door     `json:"door"`
	Tool        Tool     `json:"tool"`
	InputSHA256 string   `json:"inputSha256"`
	Path        string   `json:"path,omitempty"`
	Program     string   `json:"program,omitempty"` // name only
	Tags        []string `json:"tags,omitempty"`    // what the shell analysis found
	Host        string   `json:"host,omitempty"`
	Port        int      `json:"port,omitempty"`
}

// AuditOutcome is written when a call has ended.
type AuditOutcome struct {
	CallID       string      `json:"callId"`
	Code         Code        `json:"code,omitempty"` // of the error, when it failed
	Outcome      ExecOutcome `json:"outcome,omitempty"`
	ExitCode     *int        `json:"exitCode"`
	Signal       string      `json:"signal,omitempty"`
	StdoutBytes  int64       `json:"stdoutBytes"`
	StderrBytes  int64       `json:"stderrBytes"`
	DurationMs   int64       `json:"durationMs"`
	BeforeSHA256 string      `json:"beforeSha256,omitempty"` // of the file
	AfterSHA256  string      `json:"afterSha256,omitempty"`
}

// Decider says who decided.
type Decider string

// The deciders.
const (
	ByRule       Decider = "rule"
	ByPerson     Decider = "person"
	ByController Decider = "controller"
	ByNobody     Decider = "nobody" // no answer in time
)

// AuditDecision says what was decided about a call or a connection, and by whom.
type AuditDecision struct {
	CallID      string  `json:"callId,omitempty"`
	ApprovalID  string  `json:"approvalId,omitempty"`
	InputSHA256 string  `json:"inputSha256,omitempty"`
	Effect      Effect  `json:"effect"`
	By          Decider `json:"by"`
	UID         *int64  `json:"uid,omitempty"` // of the person's process
	Rule        string  `json:"rule,omitempty"`
	Scope       Scope   `json:"scope,omitempty"`
	Reason      string  `json:"reason,omitempty"`
	Ignored     bool    `json:"ignored,omitempty"` // late, second, replayed or foreign
}

// AuditEgress is an attempt to connect, or a change of the allowlist.
type AuditEgress struct {
	Host     string `json:"host,omitempty"`
	Address  string `json:"address,omitempty"`
	Port     int    `json:"port"`
	Effect   Effect `json:"effect"`
	Change   bool   `json:"change,omitempty"` // the allowlist changed, nobody connected
	Reason   string `json:"reason,omitempty"`
	BytesOut int64  `json:"bytesOut,omitempty"`
	BytesIn  int64  `json:"bytesIn,omitempty"`
	Count    int64  `json:"count,omitempty"` // attempts that this line stands for
}

// AuditApproval tells how an approval began and ended.
type AuditApproval struct {
	ApprovalID  string        `json:"approvalId"`
	CallID      string        `json:"callId,omitempty"`
	InputSHA256 string        `json:"inputSha256,omitempty"`
	State       ApprovalState `json:"state"`
	Rule        string        `json:"rule,omitempty"`
	ExpiresAt   *time.Time    `json:"expiresAt,omitempty"`
}
