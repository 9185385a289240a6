package podman

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/storage/pkg/idtools"
	"go.podman.io/storage/types"
	"realm.dev/container"
	"realm.dev/container/idmap"
	"realm.dev/contract"
)

// Labels that Podman acts upon: by the first an image asks for less capabilities
// than it is given, by the other for updates. Set here, the image's have no say.
const (
	capabilitiesLabel = "io.containers.capabilities"
	updateLabel       = "io.containers.autoupdate"
)

// pidsLabel keeps Limits.Pids for Init, which is given no Spec.
const pidsLabel = "dev.realm.pids"

// Capabilities of PID 1: to become the programs' user, and to end what they left.
var initCaps = []string{"KILL", "SETGID", "SETUID"}

// rootCaps are what package managers need beside initCaps (policy user: root).
var rootCaps = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"}

// moreMasks are masked beside what Podman masks: the host's disks.
var moreMasks = []string{"/sys/dev/block"}

// initEnv is the environment of PID 1; programs get another one from realm.
var initEnv = map[string]string{"PATH": "/usr/bin:/bin", "GOMAXPROCS": "1"}

// cpuPeriod is the scheduler period that a share of CPUs is counted in, in µs.
const cpuPeriod = 100_000

func ptr[T any](v T) *T { return &v }

// buildSpec is the whole sandbox as Podman understands it. Every field that an
// image or a containers.conf would fill when it is empty has a value here.
func buildSpec(s *container.Spec, f *facts) (*specgen.SpecGenerator, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if err := enforceable(s, f); err != nil {
		return nil, err
	}
	g := &specgen.SpecGenerator{
		ContainerBasicConfig:       basics(s),
		ContainerStorageConfig:     storage(s, f),
		ContainerSecurityConfig:    security(s),
		ContainerCgroupConfig:      specgen.ContainerCgroupConfig{CgroupNS: private(), CgroupsMode: "enabled"},
		ContainerNetworkConfig:     network(),
		ContainerResourceConfig:    resources(s, f),
		ContainerHealthCheckConfig: noHealthCheck(),
	}
	var err error
	g.UserNS, g.IDMappings, err = userNamespace(s.User, f)
	return g, err
}

func private() specgen.Namespace { return specgen.Namespace{NSMode: specgen.Private} }

func basics(s *container.Spec) specgen.ContainerBasicConfig {
	labels := s.Labels()
	labels[capabilitiesLabel] = strings.Join(capabilities(s), ",")
	labels[updateLabel] = "disabled"
	labels[pidsLabel] = strconv.FormatInt(s.Limits.Pids, 10)
	env := map[string]string{}
	for k, v := range initEnv {
		env[k] = v
	}
	return specgen.ContainerBasicConfig{
		Name:       s.Name(),
		Labels:     labels,
		Entrypoint: append([]string{container.InitPath}, s.Init.Args...),
		Command:    nil, // never the image's, since the entrypoint is set
		Env:        env, UnsetEnvAll: ptr(true), EnvHost: ptr(false), HTTPProxy: ptr(false),
		Annotations:      map[string]string{},
		Terminal:         ptr(false),
		Stdin:            ptr(false),
		StopSignal:       ptr(syscall.SIGKILL),
		StopTimeout:      ptr(uint(0)),
		LogConfiguration: &specgen.LogConfig{Driver: define.NoLogging},
		RestartPolicy:    define.RestartPolicyNo,
		Systemd:          "false",
		SdNotifyMode:     define.SdNotifyModeIgnore,
		PidNS:            private(),
		UtsNS:            private(),
		Hostname:         s.Hostname,
		Remove:           ptr(false),
		RemoveImage:      ptr(false),
		Passwd:           ptr(false),
	}
}

// capabilities of PID 1, sorted, without the prefix.
func capabilities(s *container.Spec) []string {
	caps := slices.Clone(initCaps)
	if s.User.Root {
		caps = append(caps, rootCaps...)
	}
	slices.Sort(caps)
	return caps
}

func storage(s *container.Spec, f *facts) specgen.ContainerStorageConfig {
	c := specgen.ContainerStorageConfig{
		Image: s.Image, RawImageName: s.Image,
		Rootfs:            s.Rootfs,
		RootfsPropagation: "private",
		ImageVolumeMode:   "ignore",
		Init:              ptr(false),
		Mounts:            mounts(s, f),
		IpcNS:             private(),
		WorkDir:           "/",
		CreateWorkingDir:  ptr(false),
		Volatile:          ptr(true),
	}
	for _, t := range s.Tmpfs {
		if t.Destination == "/dev/shm" {
			c.ShmSize = ptr(t.SizeBytes)
		}
	}
	return c
}

// mounts lists PID 1 and its socket, the session's binds and memory file
// systems. Podman mounts those first whose destinations have fewer parts.
func mounts(s *container.Spec, f *facts) []specs.Mount {
	list := []specs.Mount{
		bindMount(s, f, container.Bind{Source: s.Init.Binary, Destination: container.InitPath, Exec: true}),
		bindMount(s, f, container.Bind{Source: s.Init.SocketDir, Destination: container.SocketDir}),
		bindMount(s, f, s.Workspace),
	}
	for _, b := range s.Binds {
		list = append(list, bindMount(s, f, b))
	}
	for _, t := range s.Tmpfs {
		list = append(list, tmpfsMount(t))
	}
	slices.SortFunc(list, func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	return list
}

func bindMount(s *container.Spec, f *facts, b container.Bind) specs.Mount {
	options := []string{"bind", "rprivate", "nosuid", "nodev", "ro"}
	if b.Write {
		options[len(options)-1] = "rw"
	}
	if !b.Exec {
		options = append(options, "noexec")
	}
	if b.Owned && s.User.Idmap && !f.Rootless {
		options = append(options, idmapOption(s.User))
	}
	return specs.Mount{Type: define.TypeBind, Source: b.Source, Destination: b.Destination, Options: options}
}

// idmapOption shows the owner's files as the programs', and nobody else's: the
// other ids of the tree have no name inside. The second id is one of the
// container's, which Podman translates.
func idmapOption(u container.User) string {
	uid, gid := u.IDs()
	return fmt.Sprintf("idmap=uids=@%d-%d-1;gids=@%d-%d-1", u.OwnerUID, uid, u.OwnerGID, gid)
}

func tmpfsMount(t container.Tmpfs) specs.Mount {
	mode := t.Mode
	if mode == 0 {
		mode = 0o1777
	}
	options := []string{
		"rprivate", "nosuid", "nodev", "rw", "notmpcopyup",
		fmt.Sprintf("size=%d", t.SizeBytes), fmt.Sprintf("mode=%04o", mode),
	}
	if t.NoExec {
		options = append(options, "noexec")
	}
	return specs.Mount{Type: define.TypeTmpfs, Source: define.TypeTmpfs, Destination: t.Destination, Options: options}
}

func security(s *container.Spec) specgen.ContainerSecurityConfig {
	return specgen.ContainerSecurityConfig{
		Privileged:         ptr(false),
		User:               "0:0",
		CapDrop:            []string{"all"},
		CapAdd:             capabilities(s),
		SelinuxOpts:        []string{"disable"},
		SeccompPolicy:      "default",
		SeccompProfilePath: s.SeccompProfile,
		NoNewPrivileges:    ptr(true),
		// The root of image: host is a directory of the state directory.
		ReadOnlyFilesystem: ptr(!s.User.Root || s.Rootfs != ""),
		ReadWriteTmpfs:     ptr(false), // ours have sizes
		LabelNested:        ptr(false),
		Mask:               moreMasks,
		Umask:              "0022",
	}
}

func network() specgen.ContainerNetworkConfig {
	return specgen.ContainerNetworkConfig{
		NetNS:               specgen.Namespace{NSMode: specgen.NoNetwork},
		PublishExposedPorts: ptr(false),
		UseImageResolvConf:  ptr(true),
		UseImageHosts:       ptr(true),
		UseImageHostname:    ptr(true),
		BaseHostsFile:       "none",
	}
}

func noHealthCheck() specgen.ContainerHealthCheckConfig {
	return specgen.ContainerHealthCheckConfig{
		HealthConfig:         &manifest.Schema2HealthConfig{Test: []string{"NONE"}},
		HealthLogDestination: define.DefaultHealthCheckLocalDestination,
		HealthMaxLogCount:    define.DefaultHealthMaxLogCount,
		HealthMaxLogSize:     define.DefaultHealthMaxLogSize,
	}
}

// userNamespace is the map between the container's ids and the host's. In all of
// them the workspace's owner is who programs run as, and 0 is nobody special.
func userNamespace(u container.User, f *facts) (specgen.Namespace, *types.IDMappingOptions, error) {
	uid, gid := u.IDs()
	if f.Rootless {
		return specgen.Namespace{NSMode: specgen.KeepID, Value: fmt.Sprintf("uid=%d,gid=%d", uid, gid)}, nil, nil
	}
	if u.Base < idmap.Size || u.Base%idmap.Size != 0 || uint64(u.Base)+idmap.Size > 1<<32-1 {
		return specgen.Namespace{}, nil, contract.Errorf(contract.Internal, "container spec: the base is not one of a range of ids")
	}
	if u.Idmap {
		whole := []idtools.IDMap{{ContainerID: 0, HostID: int(u.Base), Size: idmap.Size}}
		return private(), &types.IDMappingOptions{UIDMap: whole, GIDMap: whole}, nil
	}
	if u.OwnerUID == 0 || u.OwnerGID == 0 {
		return specgen.Namespace{}, nil, contract.Errorf(contract.IsolationUnproven,
			"the workspace belongs to root and its file system has no idmapped mounts").
			WithHint("give the workspace to an ordinary user, or put it on ext4, xfs, btrfs or tmpfs")
	}
	return private(), &types.IDMappingOptions{
		UIDMap: keepOne(uid, u.OwnerUID, u.Base), GIDMap: keepOne(gid, u.OwnerGID, u.Base),
	}, nil
}

// keepOne maps one id to the owner's and the rest of the range around it.
// Podman's own keep-id, rootful, is the identity.
func keepOne(inside, owner, base uint32) []idtools.IDMap {
	in, out := int(inside), int(owner)
	var m []idtools.IDMap
	if in > 0 {
		m = append(m, idtools.IDMap{ContainerID: 0, HostID: int(base), Size: in})
	}
	return append(m,
		idtools.IDMap{ContainerID: in, HostID: out, Size: 1},
		idtools.IDMap{ContainerID: in + 1, HostID: int(base) + in + 1, Size: idmap.Size - in - 1})
}
