package contract

// EventKind names what an agent's hook reports.
type EventKind string

// The kinds of event, in the order of their schema.
const (
	PreTool      EventKind = "pre_tool"
	PostTool     EventKind = "post_tool"
	PromptSubmit EventKind = "prompt_submit"
	SessionStart EventKind = "session_start"
	UnknownEvent EventKind = "unknown"
)

// IntegrationMode says how realm is tied into an agent.
type IntegrationMode string

// The integration modes.
const (
	ExternalHook IntegrationMode = "external_hook"
	InProcess    IntegrationMode = "in_process"
	ObserveOnly  IntegrationMode = "observe_only"
)

// EventVersion is ToolCallEvent.SchemaVersion.
const EventVersion = 1

// ToolCallEvent is one hook event of any agent in one form
// (tool-call-event.schema.json).
type ToolCallEvent struct {
	SchemaVersion int            `json:"schema_version"`
	Event         EventKind      `json:"event"`
	Tool          *string        `json:"tool"`               // null for prompts and sessions
	Input         map[string]any `json:"input"`              // verbatim; numbers are json.Number
	Response      *any           `json:"response,omitempty"` // after a tool; may hold a null
	Vetoable      bool           `json:"this_call_vetoable"` // false: a deny can only be told
	Meta          EventMeta      `json:"meta"`
}

// EventMeta says where an event comes from. Identity is here and in the host's
// own knowledge, never in the input.
type EventMeta struct {
	Agent              string          `json:"agent"`
	NativeEvent        string          `json:"native_event"`
	IntegrationMode    IntegrationMode `json:"integration_mode"`
	PrimaryGatePresent bool            `json:"primary_gate_present"`
	Passthrough        map[string]any  `json:"passthrough"` // native keys that are not modelled
	NativeTool         *string         `json:"native_tool,omitempty"`
	SessionID          *string         `json:"session_id,omitempty"`
	Cwd                *string         `json:"cwd,omitempty"`
	PermissionMode     *string         `json:"permission_mode,omitempty"`
	TranscriptPath     *string         `json:"transcript_path,omitempty"`
}
