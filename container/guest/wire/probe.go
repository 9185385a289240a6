package wire

// ProbeRequest says what the probes have to prove. Everything that holds for
// every session is built in; the request carries what differs.
type ProbeRequest struct {
	UID, GID uint32   // ids of the programs in the container
	Env      []string // the environment that programs get
	Dir      string   // the working directory that programs get
	Home     string   // the home directory that programs get; made as for them

	Writable []string // paths that have to be writable
	ReadOnly []string // paths that must not be writable

	Rlimits []Rlimit // limits that have to be in force

	// Values that the cgroup has to show; 0 is not compared.
	MemoryBytes, PidsMax, CPUMicros, CPUPeriod uint64

	TCP, UDP    []string // further "ip:port" that must not answer
	Names       []string // further names that must not resolve
	HostSockets []string // further paths that must not lead to a socket

	// Waived probes may fail. They run and are reported truthfully.
	Waived []string
}

// ProbeResult is the outcome of one probe. Detail is a fixed phrase, at most
// with the name of an error number.
type ProbeResult struct {
	Name   string
	OK     bool
	Waived bool
	Detail string
}
