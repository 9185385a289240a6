package contract

// ToolCall is one call: exactly one field is set (tool-call.schema.json).
type ToolCall struct {
	Write  *WriteCall  `json:"write,omitempty"`
	Read   *ReadCall   `json:"read,omitempty"`
	List   *ListCall   `json:"list,omitempty"`
	Exec   *ExecCall   `json:"exec,omitempty"`
	Status *StatusCall `json:"status,omitempty"`
	Stop   *StopCall   `json:"stop,omitempty"`
}

// WriteCall replaces or creates one file.
type WriteCall struct {
	Path          string `json:"path"`
	Content       string `json:"content"`
	Encoding      string `json:"encoding,omitempty"` // utf8 (default) or base64
	IfMatchSHA256 string `json:"ifMatchSha256,omitempty"`
	CreateOnly    bool   `json:"createOnly,omitempty"`
	Executable    bool   `json:"executable,omitempty"`
}

// ReadCall reads a part of one file.
type ReadCall struct {
	Path     string `json:"path"`
	MaxBytes int64  `json:"maxBytes,omitempty"` // 0: the default, 1 MiB
	Offset   int64  `json:"offset,omitempty"`
}

// ListCall lists a directory.
type ListCall struct {
	Path  string `json:"path,omitempty"` // "": the root
	Depth *int   `json:"depth,omitempty"`
}

// ExecCall runs a program: argv, or a script by the shell.
type ExecCall struct {
	Argv          []string          `json:"argv,omitempty"`
	Shell         bool              `json:"shell,omitempty"`
	Script        string            `json:"script,omitempty"`
	Cwd           string            `json:"cwd,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	Stdin         string            `json:"stdin,omitempty"`
	StdinEncoding string            `json:"stdinEncoding,omitempty"`
	TimeoutMs     int64             `json:"timeoutMs,omitempty"` // 0: limits.execMs
	TTY           bool              `json:"tty,omitempty"`
}

// StatusCall asks for the session detail.
type StatusCall struct{}

// StopCall ends the session.
type StopCall struct {
	GraceMs int64 `json:"graceMs,omitempty"`
}

// Tool names one of the six tools.
type Tool string

// The six tools.
const (
	ToolWrite  Tool = "write"
	ToolRead   Tool = "read"
	ToolList   Tool = "list"
	ToolExec   Tool = "exec"
	ToolStatus Tool = "status"
	ToolStop   Tool = "stop"
)

// Tool returns which tool c calls.
func (c *ToolCall) Tool() Tool {
	switch {
	case c.Write != nil:
		return ToolWrite
	case c.Read != nil:
		return ToolRead
	case c.List != nil:
		return ToolList
	case c.Exec != nil:
		return ToolExec
	case c.Status != nil:
		return ToolStatus
	case c.Stop != nil:
		return ToolStop
	}
	return ""
}

// ExecOutcome says how a program ended.
type ExecOutcome string

// The exec outcomes. Lost means that nobody knows: exitCode is null then.
const (
	Exited   ExecOutcome = "exited"
	Signaled ExecOutcome = "signaled"
	TimedOut ExecOutcome = "timeout"
	OOM      ExecOutcome = "oom"
	Lost     ExecOutcome = "lost"
)

// ToolResult is the answer to one call: either error, or the field of the tool
// (tool-result.schema.json).
type ToolResult struct {
	CallID string         `json:"callId"`
	Error  *Error         `json:"error,omitempty"`
	Write  *WriteResult   `json:"write,omitempty"`
	Read   *ReadResult    `json:"read,omitempty"`
	List   *ListResult    `json:"list,omitempty"`
	Exec   *ExecResult    `json:"exec,omitempty"` // also beside error, with what was printed so far
	Status *SessionDetail `json:"status,omitempty"`
	Stop   *SessionRecord `json:"stop,omitempty"`
}

// WriteResult tells of the file as written.
type WriteResult struct {
	SHA256    string `json:"sha256"`
	SizeBytes int64  `json:"sizeBytes"`
	Created   bool   `json:"created"`
}

// ReadResult holds a part of a file.
type ReadResult struct {
	Content   string  `json:"content"`
	Encoding  string  `json:"encoding"` // utf8 or base64
	SizeBytes int64   `json:"sizeBytes"`
	Truncated bool    `json:"truncated"`
	SHA256    *string `json:"sha256"` // of the whole file; null above 16 MiB
}

// ListResult holds a directory's entries, sorted by path.
type ListResult struct {
	Entries   []ListEntry `json:"entries"`
	Truncated bool        `json:"truncated"`
}

// ListEntry is one entry of a directory.
type ListEntry struct {
	Path         string `json:"path"`
	PathEncoding string `json:"pathEncoding,omitempty"` // base64 when the name is not UTF-8
	Type         string `json:"type"`                   // file, dir, symlink, fifo, socket, device
	SizeBytes    int64  `json:"sizeBytes"`
	Mode         string `json:"mode"`  // "0644"
	Mtime        string `json:"mtime"` // RFC 3339, UTC
}

// ExecResult tells how a program ended and what it printed.
type ExecResult struct {
	Outcome    ExecOutcome `json:"outcome"`
	ExitCode   *int        `json:"exitCode"`
	Signal     string      `json:"signal,omitempty"`
	Stdout     Output      `json:"stdout"`
	Stderr     Output      `json:"stderr"`
	DurationMs int64       `json:"durationMs"`
	Background int         `json:"background,omitempty"` // processes still running under this call
}

// Output is what came through one stream. Beyond the policy's outputBytes the
// middle is left out of it and the whole is in the spill file.
type Output struct {
	Head      string `json:"head"`
	Tail      string `json:"tail,omitempty"`
	Encoding  string `json:"encoding"` // utf8 or base64, for head and tail
	Bytes     int64  `json:"bytes"`
	Truncated bool   `json:"truncated"`
	Spill     string `json:"spill,omitempty"`  // file in the state directory
	SHA256    string `json:"sha256,omitempty"` // of the whole, when spilled
}
