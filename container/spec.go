package container

import "strconv"

// Spec is the container of one session. It says only what differs between
// sessions; everything that makes the sandbox is fixed by the engine's own
// builder and is no option here.
type Spec struct {
	RealmID   string
	SessionID string
	Epoch     string // of the realm process that made it

	// Exactly one of the two.
	Rootfs string // a prepared root directory (image: host)
	Image  string // an image that EnsureImage returned

	Init Init
	User User

	Workspace Bind   // the workspace itself
	Binds     []Bind // everything else, ordered: a mount below another comes after it
	Tmpfs     []Tmpfs

	Limits Limits

	Hostname string
	// SeccompProfile is a file that the engine's service can read.
	SeccompProfile string
}

// Name is the container's name, derived so that creating twice finds the first.
func (s *Spec) Name() string { return "realm-" + s.SessionID }

// Labels are the labels that mark the container.
func (s *Spec) Labels() map[string]string {
	labels := map[string]string{LabelRealm: s.RealmID, LabelSession: s.SessionID, LabelEpoch: s.Epoch}
	if s.User.Base != 0 {
		labels[LabelBase] = strconv.FormatUint(uint64(s.User.Base), 10)
	}
	return labels
}

// Init is PID 1.
type Init struct {
	Binary    string // on the host; mounted read-only at InitPath
	SocketDir string // on the host; mounted read-only at SocketPath's directory
	Args      []string
}

// Where PID 1 and its socket are inside.
const (
	InitPath  = "/.realm/init"
	SocketDir = "/.realm/link"
	// CoverDir is where binds may show what hidden names are covered with.
	CoverDir = "/.realm/cover"
)

// The ids of programs inside, unless UserRoot.
const (
	ProgramUID = 1000
	ProgramGID = 1000
)

// User says how ids inside map to the host.
type User struct {
	// Owner of the workspace: programs' files are owned by it on the host.
	OwnerUID, OwnerGID uint32
	// Root: programs run as uid 0 of the namespace with the package managers'
	// capabilities and a writable root file system.
	Root bool
	// Idmap says that the workspace's file system supports idmapped mounts.
	// Rootful only; without it the map is made by hand.
	Idmap bool
	// Base is the first host id of the session's private range. Rootful only.
	Base uint32
}

// IDs are the uid and gid of programs inside.
func (u User) IDs() (uid, gid uint32) {
	if u.Root {
		return 0, 0
	}
	return ProgramUID, ProgramGID
}

// HostIDs are the uid and gid of programs as the host sees them: the owner's
// own, except where a private range is used and the mounts translate.
func (u User) HostIDs(rootless bool) (uid, gid uint32) {
	if rootless || !u.Idmap {
		return u.OwnerUID, u.OwnerGID
	}
	uid, gid = u.IDs()
	return u.Base + uid, u.Base + gid
}

// Bind is one bind mount. Source and Destination are absolute and clean.
type Bind struct {
	Source, Destination string
	Write               bool
	Exec                bool // else noexec
	// Owned binds show the workspace owner's files as the program's: they get
	// the workspace's id mapping.
	Owned bool
	Role  string // workspace, git, protect, hide, pin, placeholder, home, mount, usr, etc
}

// Tmpfs is one memory file system.
type Tmpfs struct {
	Destination string
	SizeBytes   int64
	Mode        uint32 // 01777 when 0
	NoExec      bool
}

// Limits of the whole container; all finite.
type Limits struct {
	MemoryBytes int64
	CPUs        float64
	Pids        int64
	OpenFiles   int64
	// AllowUnenforced names limits that may go without enforcement.
	AllowUnenforced []string
}
