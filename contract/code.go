package contract

// Code names one row of the error catalogue (schemas/v1/errors.json). No error
// leaves realm without one.
type Code string

// The catalogue. Its order is the order of errors.json.
const (
	SchemaInvalid            Code = "SCHEMA_INVALID"
	LimitExceeded            Code = "LIMIT_EXCEEDED"
	PathRefused              Code = "PATH_REFUSED"
	PathNotFound             Code = "PATH_NOT_FOUND"
	WriteConflict            Code = "WRITE_CONFLICT"
	ShellNotAllowed          Code = "SHELL_NOT_ALLOWED"
	EgressRefused            Code = "EGRESS_REFUSED"
	PermissionDenied         Code = "PERMISSION_DENIED"
	PermissionUnavailable    Code = "PERMISSION_UNAVAILABLE"
	QueueTimeout             Code = "QUEUE_TIMEOUT"
	StartupTimeout           Code = "STARTUP_TIMEOUT"
	ExecTimeout              Code = "EXEC_TIMEOUT"
	ExecNotStarted           Code = "EXEC_NOT_STARTED"
	SessionNotFound          Code = "SESSION_NOT_FOUND"
	SessionState             Code = "SESSION_STATE"
	SessionLost              Code = "SESSION_LOST"
	ImageUnavailable         Code = "IMAGE_UNAVAILABLE"
	PodmanUnavailable        Code = "PODMAN_UNAVAILABLE"
	PodmanUnsupportedVersion Code = "PODMAN_UNSUPPORTED_VERSION"
	IsolationUnproven        Code = "ISOLATION_UNPROVEN"
	Internal                 Code = "INTERNAL"
)
