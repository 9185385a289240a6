package wire

// Type is the type of a frame.
type Type uint8

// The frame types. A request and all its answers carry the same identifier,
// chosen by the side that asks.
const (
	TypeHello     Type = iota + 1 // init, first frame of a link
	TypeWelcome                   // host, answer to hello
	TypeExec                      // host: run a program; stdin, stdout, stderr beside it
	TypeStarted                   // init: it runs; the pty master beside it
	TypeExited                    // init: it ended, or could not be started
	TypeIdle                      // shim to init only: it serves nobody, nothing of a call is left
	TypeSignal                    // host
	TypeKill                      // host
	TypeList                      // host
	TypeProcesses                 // init, answer to list
	TypeProbe                     // host
	TypeReport                    // init, answer to probe
	TypeReset                     // host
	TypeShutdown                  // host
	TypeReply                     // init, answer to signal, kill, reset, shutdown, failed probe
	typeEnd
)

func (t Type) known() bool { return t > 0 && t < typeEnd }

// The limits of what a message may hold. Together they stay below MaxPayload
// only because MaxPayload is checked as well.
const (
	MaxID       = 128
	MaxArgs     = 8192
	MaxString   = 128 << 10 // MAX_ARG_STRLEN of the kernel
	MaxPath     = 4096
	MaxRlimits  = 16
	MaxCalls    = 256
	MaxList     = 4096
	MaxProcName = 64
	MaxProbes   = 1024
	MaxDetail   = 256
)

// Message is the content of a frame.
type Message interface {
	frameType() Type
	code(c *coder)
}

// Hello is the first frame of init on a link.
type Hello struct {
	PID      uint32
	Resumed  bool     // not the first link of this init
	OOMKnown bool     // the counter of OOM kills is visible
	Calls    []string // the calls that are still alive
}

// Welcome is the host's answer to Hello.
type Welcome struct{ OwnerGraceMillis uint32 }

// Rlimit is one resource limit, numbered as in setrlimit(2).
type Rlimit struct {
	Resource   uint32
	Soft, Hard uint64
}

// Exec asks for a program to be run.
type Exec struct {
	Call       string
	Argv, Env  []string
	Dir        string
	UID, GID   uint32
	NoStdin    bool
	TTY        bool
	Rows, Cols uint16
	Rlimits    []Rlimit
	Home       string
}

// Started says that the program runs.
type Started struct{ PID uint32 }

// Outcome tells how a call came to its end.
type Outcome uint8

// The outcomes of a call.
const (
	OutcomeExited Outcome = iota + 1
	OutcomeSignaled
	OutcomeNotStarted
	OutcomeLost // the status cannot be known: never replaced by a guess
	outcomeEnd
)

// Exited tells how the program ended, or why it could not be started.
type Exited struct {
	Outcome    Outcome
	Code       uint8
	Signal     uint8
	Phase      string // not started: what failed
	Errno      uint32 // not started: why
	UserMicros uint64
	SysMicros  uint64
	MaxRSS     uint64 // bytes
	Background uint32 // processes of the call that are still alive
	OOMKnown   bool
	OOMKills   uint32 // OOM kills that the cgroup counted during the call
}

// Idle says that nothing is below a shim.
type Idle struct{}

// Signal asks for a signal to the process group of a call's program.
type Signal struct {
	Call   string
	Signal uint8
}

// Kill asks for the end of every process of a call.
type Kill struct{ Call string }

// List asks for the processes of all calls.
type List struct{}

// ProcessInfo is one process that belongs to a call.
type ProcessInfo struct {
	Call      string
	PID, PPID uint32
	UID       uint32
	State     uint8 // as in /proc/PID/stat
	Name      string
}

// Processes answers List.
type Processes struct {
	Processes []ProcessInfo
	Truncated bool
}

// Probe asks for the isolation to be proven.
type Probe struct{ ProbeRequest }

// Report answers Probe.
type Report struct{ Results []ProbeResult }

// Reset asks for the end of every process but init.
type Reset struct{}

// Shutdown asks init to end, and everything with it.
type Shutdown struct{}

// Reply answers a request that has no content of its own to return.
type Reply struct{ Errno uint32 }

// TypeOf returns the type of the frame that carries m.
func TypeOf(m Message) Type { return m.frameType() }

func (*Hello) frameType() Type     { return TypeHello }
func (*Welcome) frameType() Type   { return TypeWelcome }
func (*Exec) frameType() Type      { return TypeExec }
func (*Started) frameType() Type   { return TypeStarted }
func (*Exited) frameType() Type    { return TypeExited }
func (*Idle) frameType() Type      { return TypeIdle }
func (*Signal) frameType() Type    { return TypeSignal }
func (*Kill) frameType() Type      { return TypeKill }
func (*List) frameType() Type      { return TypeList }
func (*Processes) frameType() Type { return TypeProcesses }
func (*Probe) frameType() Type     { return TypeProbe }
func (*Report) frameType() Type    { return TypeReport }
func (*Reset) frameType() Type     { return TypeReset }
func (*Shutdown) frameType() Type  { return TypeShutdown }
func (*Reply) frameType() Type     { return TypeReply }
