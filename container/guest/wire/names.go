package wire

// The names of the probes. One with several subjects appends "/" and the index
// of the subject in the request.
const (
	ProbeInitCapabilities = "init_capabilities" // init has SETUID, SETGID and KILL, at most
	ProbeInitDescriptors  = "init_descriptors"  // the engine left init none but 0, 1 and 2
	ProbeCapabilities     = "capabilities"      // a program has none, in no set
	ProbeNoNewPrivs       = "no_new_privs"
	ProbeSeccomp          = "seccomp"
	ProbeIDs              = "ids"         // as asked, without supplementary groups
	ProbeDescriptors      = "descriptors" // none but 0, 1 and 2
	ProbeUserMap          = "user_map"    // a user namespace that is not the identity
	ProbeEnvironment      = "environment" // exactly what was asked
	ProbeDirectory        = "directory"
	ProbeSession          = "session" // its own, without a terminal
	ProbeOOMScore         = "oom_score"
	ProbeRlimit           = "rlimit" // …/N
	ProbeCoreLimit        = "core_limit"

	ProbeCgroupMemory = "cgroup_memory"
	ProbeCgroupPids   = "cgroup_pids"
	ProbeCgroupCPU    = "cgroup_cpu"

	ProbeUserNamespace = "user_namespace" // unshare and clone refuse a new one
	ProbeSetuidChmod   = "setuid_chmod"   // no way to make a setuid file
	ProbeSetuidOpen    = "setuid_open"
	ProbeSetuidMknod   = "setuid_mknod"
	ProbeDeviceNode    = "device_node"
	ProbeMount         = "mount"
	ProbeMountAPI      = "mount_api"
	ProbeClone3        = "clone3"
	ProbeOpenat2       = "openat2"
	ProbeIOUring       = "io_uring"
	ProbeKeyctl        = "keyctl"
	ProbeBPF           = "bpf"
	ProbeUserfaultfd   = "userfaultfd"
	ProbePerfEvent     = "perf_event_open"
	ProbePtraceInit    = "ptrace_init"
	ProbeSignalInit    = "signal_init"
	ProbeInitPrivate   = "init_private" // /proc/1 shows nothing that matters

	ProbeTCP             = "tcp"
	ProbeUDP             = "udp"
	ProbeICMP            = "icmp"
	ProbeRaw             = "raw_socket"
	ProbeIPv6            = "ipv6"
	ProbeMetadata        = "metadata" // the address of a cloud's metadata service
	ProbeVsock           = "vsock"
	ProbeSocketFamilies  = "socket_families"
	ProbeDNS             = "dns"
	ProbeInterfaces      = "interfaces" // only lo is up
	ProbeRoutes          = "routes"     // none but those of lo
	ProbeHostSockets     = "host_sockets"
	ProbeAbstractSockets = "abstract_sockets"

	ProbeProcMasked     = "proc_masked"
	ProbeProcReadOnly   = "proc_read_only"
	ProbeSysReadOnly    = "sys_read_only"
	ProbeRootfsReadOnly = "rootfs_read_only"
	ProbeWritable       = "writable"  // …/N
	ProbeReadOnly       = "read_only" // …/N
)
