package contract

import "time"

// Protocol is the version of the control socket's frames. A peer that speaks
// another one is refused at hello.
const Protocol = 1

// FrameType names a frame; the frame's body is the field of that name.
type FrameType string

// The frames of the control socket (control-message.schema.json).
const (
	FrameHello    FrameType = "hello"    // to the client, first: protocol and record
	FrameRecord   FrameType = "record"   // to the client: a transition
	FrameCall     FrameType = "call"     // to realm: a tool call
	FrameOutput   FrameType = "output"   // to the client: what a call printed
	FrameResult   FrameType = "result"   // to the client: a call's answer
	FrameStdin    FrameType = "stdin"    // to realm: input of a running call
	FrameResize   FrameType = "resize"   // to realm: the terminal's size
	FrameSignal   FrameType = "signal"   // to realm: a signal for a running call
	FrameCancel   FrameType = "cancel"   // to realm: end a call
	FrameApproval FrameType = "approval" // to the owner: what waits for a decision
	FrameDecision FrameType = "decision" // from the owner: the decision
	FrameEgress   FrameType = "egress"   // from the owner: change the allowlist; to all: it changed
	FrameEvent    FrameType = "event"    // to the client: a line of the journal, or a gap
	FrameError    FrameType = "error"    // to the client: what could not be done
)

// Frame is one message on the control socket: seq, type and the one body that
// type names. Each side numbers its own frames from 1.
type Frame struct {
	Seq      int64          `json:"seq"`
	Type     FrameType      `json:"type"`
	Hello    *HelloFrame    `json:"hello,omitempty"`
	Record   *RecordFrame   `json:"record,omitempty"`
	Call     *CallFrame     `json:"call,omitempty"`
	Output   *OutputFrame   `json:"output,omitempty"`
	Result   *ToolResult    `json:"result,omitempty"`
	Stdin    *StdinFrame    `json:"stdin,omitempty"`
	Resize   *ResizeFrame   `json:"resize,omitempty"`
	Signal   *SignalFrame   `json:"signal,omitempty"`
	Cancel   *CancelFrame   `json:"cancel,omitempty"`
	Approval *ApprovalFrame `json:"approval,omitempty"`
	Decision *DecisionFrame `json:"decision,omitempty"`
	Egress   *EgressFrame   `json:"egress,omitempty"`
	Event    *EventFrame    `json:"event,omitempty"`
	Error    *ErrorFrame    `json:"error,omitempty"`
}

// Door says which socket a client came through, and so what it may do.
type Door string

// The doors. Approvals, egress changes and attach are the owner's.
const (
	DoorAgent   Door = "agent"
	DoorOwner   Door = "owner"
	DoorManager Door = "manager"
)

// HelloFrame opens every connection.
type HelloFrame struct {
	Protocol int           `json:"protocol"`
	Realm    string        `json:"realm"` // realm's version
	Door     Door          `json:"door"`
	Record   SessionRecord `json:"record"`
}

// RecordFrame tells of a transition. Head is the hash of the journal's last
// line, for `realm audit verify --head`.
type RecordFrame struct {
	Record SessionRecord `json:"record"`
	Head   string        `json:"head,omitempty"`
}

// CallFrame asks for a tool call. A call id is used at most once: the same id
// again returns the stored result.
type CallFrame struct {
	CallID string   `json:"callId"`
	Call   ToolCall `json:"call"`
}

// OutputFrame carries what a call printed, from Offset of its stream.
type OutputFrame struct {
	CallID   string `json:"callId"`
	Stream   string `json:"stream"` // stdout or stderr
	Offset   int64  `json:"offset"`
	Data     string `json:"data"`
	Encoding string `json:"encoding"` // utf8 or base64
	EOF      bool   `json:"eof,omitempty"`
}

// StdinFrame carries input to a running call.
type StdinFrame struct {
	CallID   string `json:"callId"`
	Data     string `json:"data"`
	Encoding string `json:"encoding,omitempty"` // utf8 (default) or base64
	EOF      bool   `json:"eof,omitempty"`
}

// ResizeFrame gives the size of the terminal of a running call.
type ResizeFrame struct {
	CallID string `json:"callId"`
	Rows   int    `json:"rows"`
	Cols   int    `json:"cols"`
}

// SignalFrame sends a signal to the program of a running call.
type SignalFrame struct {
	CallID string `json:"callId"`
	Signal string `json:"signal"` // "SIGINT"
}

// CancelFrame ends a call, whether it waits or runs.
type CancelFrame struct {
	CallID string `json:"callId"`
}

// ApprovalState says whether an approval still waits.
type ApprovalState string

// The states of an approval; all but Waiting are final.
const (
	Waiting   ApprovalState = "waiting"
	Answered  ApprovalState = "answered"
	Expired   ApprovalState = "expired"
	Withdrawn ApprovalState = "withdrawn" // the call ended or was cancelled
)

// Scope says for how long a decision holds.
type Scope string

// The scopes of a decision.
const (
	Once       Scope = "once"
	ForSession Scope = "session"
)

// ApprovalFrame shows what waits for a decision. It is untrusted text: control
// characters must be escaped before a person sees it.
type ApprovalFrame struct {
	ApprovalID  string        `json:"approvalId"`
	CallID      string        `json:"callId,omitempty"` // none for a connection
	State       ApprovalState `json:"state"`
	Tool        Tool          `json:"tool,omitempty"`
	Command     string        `json:"command,omitempty"`
	Paths       []string      `json:"paths,omitempty"`
	Host        string        `json:"host,omitempty"`
	Port        int           `json:"port,omitempty"`
	Rule        string        `json:"rule,omitempty"`
	Reason      string        `json:"reason"`
	InputSHA256 string        `json:"inputSha256"` // what a decision is bound to
	ExpiresAt   time.Time     `json:"expiresAt"`
	LeftMs      int64         `json:"leftMs"`
}

// DecisionFrame answers an approval. It is bound to the hash of the input and
// used once; the first answer wins.
type DecisionFrame struct {
	ApprovalID   string    `json:"approvalId"`
	InputSHA256  string    `json:"inputSha256"`
	Decision     Effect    `json:"decision"` // allow or deny
	Scope        Scope     `json:"scope"`
	Reason       string    `json:"reason,omitempty"`
	MutatedInput *ToolCall `json:"mutatedInput,omitempty"` // passes the rules again
}

// EgressFrame changes the allowlist of a running session.
type EgressFrame struct {
	Allow []EgressEntry `json:"allow,omitempty"`
	Deny  []EgressEntry `json:"deny,omitempty"`
}

// EventFrame is a line of the journal, or the lines that are no longer kept.
type EventFrame struct {
	Entry *AuditEntry `json:"entry,omitempty"`
	Gap   *Gap        `json:"gap,omitempty"`
}

// Gap is a range of sequence numbers, both ends included.
type Gap struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// ErrorFrame says what could not be done, with the call it belongs to.
type ErrorFrame struct {
	CallID string `json:"callId,omitempty"`
	Error  Error  `json:"error"`
}
