package podman

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runtime-spec/specs-go"
	"realm.dev/contract"
)

// copyOf is a deep copy by JSON.
func copyOf[T any](t *testing.T, v *T) *T {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestVerifyNoticesEveryChange takes what a real engine made and changes one
// thing at a time.
func TestVerifyNoticesEveryChange(t *testing.T) {
	e := open(t)
	b := specOf(t, e).create()
	b.must(e.Init(t.Context(), b.id))
	want, f, err := e.spec(t.Context(), b.Spec, e.log)
	b.must(err)
	data, err := e.inspect(t.Context(), b.id)
	b.must(err)
	config, err := readConfig(data.OCIConfigPath)
	b.must(err)

	b.must(checkCreated(copyOf(t, data), want, f))
	for name, change := range createdChanges {
		changed := copyOf(t, data)
		change(changed)
		wantUnproven(t, name, checkCreated(changed, want, f))
	}
	b.must(checkConfig(copyOf(t, config), want))
	for name, change := range configChanges {
		changed := copyOf(t, config)
		change(changed)
		wantUnproven(t, name, checkConfig(changed, want))
	}
}

func wantUnproven(t *testing.T, what string, err error) {
	t.Helper()
	if contract.CodeOf(err) != contract.IsolationUnproven {
		t.Errorf("%s: got %v, want ISOLATION_UNPROVEN", what, err)
	}
}

var createdChanges = map[string]func(*define.InspectContainerData){
	"name":          func(d *define.InspectContainerData) { d.Name = "other" },
	"a label":       func(d *define.InspectContainerData) { d.Config.Labels["dev.realm.session-id"] = "other" },
	"the rootfs":    func(d *define.InspectContainerData) { d.Rootfs = "/" },
	"another image": func(d *define.InspectContainerData) { d.Rootfs = "" },
	"the runtime":   func(d *define.InspectContainerData) { d.OCIRuntime = "crun-wasm" },
	"privileged":    func(d *define.InspectContainerData) { d.HostConfig.Privileged = true },
	"writable root": func(d *define.InspectContainerData) { d.HostConfig.ReadonlyRootfs = false },
	"a capability":  func(d *define.InspectContainerData) { d.EffectiveCaps = append(d.EffectiveCaps, "CAP_SYS_ADMIN") },
	"bounding":      func(d *define.InspectContainerData) { d.BoundingCaps = append(d.BoundingCaps, "CAP_SYS_ADMIN") },
	"a device": func(d *define.InspectContainerData) {
		d.HostConfig.Devices = []define.InspectDevice{{PathOnHost: "/dev/kmsg"}}
	},
	"an annotation": func(d *define.InspectContainerData) {
		d.Config.Annotations = map[string]string{"run.oci.handler": "krun"}
	},
	"a switch on": func(d *define.InspectContainerData) {
		d.Config.Annotations = map[string]string{"io.podman.annotations.privileged": "TRUE"}
	},
	"a secret":       func(d *define.InspectContainerData) { d.Config.Secrets = []*define.InspectSecret{{Name: "s"}} },
	"the program":    func(d *define.InspectContainerData) { d.Config.Entrypoint = []string{"/bin/sh"} },
	"arguments":      func(d *define.InspectContainerData) { d.Config.Cmd = []string{"x"} },
	"the user":       func(d *define.InspectContainerData) { d.Config.User = "1000" },
	"a group":        func(d *define.InspectContainerData) { d.HostConfig.GroupAdd = []string{"keep-groups"} },
	"the directory":  func(d *define.InspectContainerData) { d.Config.WorkingDir = "/x" },
	"a health check": func(d *define.InspectContainerData) { d.Config.Healthcheck.Test = []string{"CMD", "x"} },
	"a network":      func(d *define.InspectContainerData) { d.HostConfig.NetworkMode = "bridge" },
	"pids":           func(d *define.InspectContainerData) { d.HostConfig.PidMode = "host" },
	"ipc":            func(d *define.InspectContainerData) { d.HostConfig.IpcMode = "host" },
	"uts":            func(d *define.InspectContainerData) { d.HostConfig.UTSMode = "host" },
	"cgroups":        func(d *define.InspectContainerData) { d.HostConfig.CgroupMode = "host" },
	"users":          func(d *define.InspectContainerData) { d.HostConfig.UsernsMode = "" },
	"a pod":          func(d *define.InspectContainerData) { d.Pod = "p" },
	"volumes from":   func(d *define.InspectContainerData) { d.HostConfig.VolumesFrom = []string{"c"} },
	"a restart":      func(d *define.InspectContainerData) { d.HostConfig.RestartPolicy.Name = "always" },
	"a mount more": func(d *define.InspectContainerData) {
		d.Mounts = append(d.Mounts, define.InspectMount{Type: "bind", Source: "/etc", Destination: "/opt"})
	},
	"a mount less": func(d *define.InspectContainerData) { d.Mounts = d.Mounts[1:] },
	"a source":     func(d *define.InspectContainerData) { d.Mounts[0].Source = "/etc" },
	"a volume":     func(d *define.InspectContainerData) { d.Mounts[0].Type = "volume" },
	"a tmpfs less": func(d *define.InspectContainerData) { delete(d.HostConfig.Tmpfs, "/tmp") },
	"a tmpfs more": func(d *define.InspectContainerData) { d.HostConfig.Tmpfs["/etc"] = "rw" },
	"read-only to rw": func(d *define.InspectContainerData) {
		i := slices.IndexFunc(d.Mounts, func(m define.InspectMount) bool { return !m.RW })
		d.Mounts[i].RW = true
	},
	"no configuration": func(d *define.InspectContainerData) { d.HostConfig = nil },
}

var configChanges = map[string]func(*specs.Spec){
	"a hook":          func(c *specs.Spec) { c.Hooks = &specs.Hooks{CreateRuntime: []specs.Hook{{Path: "/x"}}} },
	"an old hook":     func(c *specs.Spec) { c.Hooks = &specs.Hooks{Prestart: []specs.Hook{{Path: "/x"}}} }, //nolint:staticcheck // engines still write them
	"the program":     func(c *specs.Spec) { c.Process.Args = append(c.Process.Args, "x") },
	"the directory":   func(c *specs.Spec) { c.Process.Cwd = "/tmp" },
	"a terminal":      func(c *specs.Spec) { c.Process.Terminal = true },
	"the environment": func(c *specs.Spec) { c.Process.Env = append(c.Process.Env, "LD_PRELOAD=/x") },
	"its PATH":        func(c *specs.Spec) { c.Process.Env = append(c.Process.Env, "PATH=/tmp") },
	"the user":        func(c *specs.Spec) { c.Process.User.UID = 1 },
	"a group":         func(c *specs.Spec) { c.Process.User.AdditionalGids = []uint32{27} },
	"new privileges":  func(c *specs.Spec) { c.Process.NoNewPrivileges = false },
	"bounding": func(c *specs.Spec) {
		c.Process.Capabilities.Bounding = append(c.Process.Capabilities.Bounding, "CAP_SYS_ADMIN")
	},
	"effective": func(c *specs.Spec) {
		c.Process.Capabilities.Effective = append(c.Process.Capabilities.Effective, "CAP_SYS_ADMIN")
	},
	"permitted": func(c *specs.Spec) {
		c.Process.Capabilities.Permitted = append(c.Process.Capabilities.Permitted, "CAP_SYS_ADMIN")
	},
	"ambient":         func(c *specs.Spec) { c.Process.Capabilities.Ambient = []string{"CAP_KILL"} },
	"inheritable":     func(c *specs.Spec) { c.Process.Capabilities.Inheritable = []string{"CAP_KILL"} },
	"a higher rlimit": func(c *specs.Spec) { c.Process.Rlimits[0].Hard++ },
	"an rlimit less":  func(c *specs.Spec) { c.Process.Rlimits = c.Process.Rlimits[1:] },
	"an rlimit more": func(c *specs.Spec) {
		c.Process.Rlimits = append(c.Process.Rlimits, specs.POSIXRlimit{Type: "RLIMIT_MEMLOCK"})
	},
	"writable root":        func(c *specs.Spec) { c.Root.Readonly = false },
	"an annotation":        func(c *specs.Spec) { c.Annotations["run.oci.seccomp.receiver"] = "/x" },
	"no filter":            func(c *specs.Spec) { c.Linux.Seccomp = nil },
	"an empty filter":      func(c *specs.Spec) { c.Linux.Seccomp = &specs.LinuxSeccomp{} },
	"a filter that allows": func(c *specs.Spec) { c.Linux.Seccomp.DefaultAction = specs.ActAllow },
	"a rule less":          func(c *specs.Spec) { c.Linux.Seccomp.Syscalls = c.Linux.Seccomp.Syscalls[1:] },
	"an architecture": func(c *specs.Spec) {
		c.Linux.Seccomp.Architectures = append(c.Linux.Seccomp.Architectures, specs.ArchX86)
	},
	"a namespace less":   func(c *specs.Spec) { c.Linux.Namespaces = c.Linux.Namespaces[1:] },
	"a namespace joined": func(c *specs.Spec) { c.Linux.Namespaces[0].Path = "/proc/1/ns/pid" },
	"no ids":             func(c *specs.Spec) { c.Linux.UIDMappings = nil },
	"a device":           func(c *specs.Spec) { c.Linux.Devices = []specs.LinuxDevice{{Path: "/dev/kmsg"}} },
	"a device rule":      func(c *specs.Spec) { c.Linux.Resources.Devices = []specs.LinuxDeviceCgroup{{Allow: true}} },
	"a cgroup setting":   func(c *specs.Spec) { c.Linux.Resources.Unified = map[string]string{"memory.max": "max"} },
	"a parameter":        func(c *specs.Spec) { c.Linux.Sysctl = map[string]string{"net.ipv4.ip_forward": "1"} },
	"a mask less": func(c *specs.Spec) {
		c.Linux.MaskedPaths = slices.DeleteFunc(c.Linux.MaskedPaths, func(p string) bool { return p == "/proc/kcore" })
	},
	"proc/sys writable": func(c *specs.Spec) { c.Linux.ReadonlyPaths = nil },
	"shared mounts":     func(c *specs.Spec) { c.Linux.RootfsPropagation = "shared" },
	"a personality":     func(c *specs.Spec) { c.Linux.Personality = &specs.LinuxPersonality{} },
	"a mount more": func(c *specs.Spec) {
		c.Mounts = append(c.Mounts, specs.Mount{Destination: "/opt", Type: "bind", Source: "/etc"})
	},
	"a bind on proc": func(c *specs.Spec) {
		changeMount(c, "/proc", func(m *specs.Mount) { m.Type, m.Source = "bind", "/proc" })
	},
	"a writable sys": func(c *specs.Spec) { changeMount(c, "/sys", func(m *specs.Mount) { m.Options = nil }) },
	"a mount less": func(c *specs.Spec) {
		c.Mounts = slices.DeleteFunc(c.Mounts, func(m specs.Mount) bool { return m.Destination == "/tmp" })
	},
	"a source": func(c *specs.Spec) { changeMount(c, "/usr", func(m *specs.Mount) { m.Source = "/" }) },
	"no nosuid": func(c *specs.Spec) {
		changeMount(c, "/usr", func(m *specs.Mount) {
			m.Options = slices.DeleteFunc(m.Options, func(o string) bool { return o == "nosuid" })
		})
	},
	"a tmpfs without a size": func(c *specs.Spec) {
		changeMount(c, "/tmp", func(m *specs.Mount) {
			m.Options = slices.DeleteFunc(m.Options, func(o string) bool { return strings.HasPrefix(o, "size=") })
		})
	},
}

func changeMount(c *specs.Spec, destination string, change func(*specs.Mount)) {
	for i := range c.Mounts {
		if c.Mounts[i].Destination == destination {
			change(&c.Mounts[i])
		}
	}
}

// a small container's mounts as the kernel lists them: /usr carries /usr/local
// along and has a bind of its own over that.
const mountTable = `20 10 8:1 /root / ro,relatime - ext4 /dev/a rw
21 20 0:1 / /proc rw,nosuid,nodev,noexec - proc proc rw
22 20 0:2 / /dev ro,nosuid - tmpfs tmpfs rw
23 20 8:1 /usr /usr ro,nosuid,nodev - ext4 /dev/a rw
24 23 8:2 /local /usr/local rw - ext4 /dev/b rw
25 24 8:2 /local /usr/local ro,nosuid,nodev - ext4 /dev/b rw
26 20 0:3 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=4k
27 26 8:1 /w /tmp/w rw,nosuid,nodev - ext4 /dev/a rw
28 21 0:4 / /proc/acpi ro - tmpfs tmpfs rw
29 22 0:5 /null /dev/null rw,nosuid,noexec - devtmpfs dev rw
`

func mountTableSpec() *specgen.SpecGenerator {
	bind := func(dest string, options ...string) specs.Mount {
		return specs.Mount{Type: "bind", Destination: dest, Options: append([]string{"nosuid", "nodev"}, options...)}
	}
	g := &specgen.SpecGenerator{}
	g.ReadOnlyFilesystem = ptr(true)
	g.Mounts = []specs.Mount{
		bind("/usr", "ro"), bind("/usr/local", "ro"), bind("/tmp/w", "rw"),
		{Type: "tmpfs", Destination: "/tmp", Options: []string{"nosuid", "nodev"}},
	}
	return g
}

func TestCheckMountTree(t *testing.T) {
	for name, tt := range map[string]struct {
		table string
		ok    bool
	}{
		"as asked":                {mountTable, true},
		"a bind more":             {mountTable + "30 20 8:1 /etc /etc rw - ext4 /dev/a rw\n", false},
		"a bind under a tmpfs":    {mountTable + "30 20 8:1 /etc /tmp/etc rw - ext4 /dev/a rw\n", true}, // nothing leads there
		"a bind in the workspace": {mountTable + "30 27 8:1 /etc /tmp/w/etc rw,nosuid,nodev - ext4 /dev/a rw\n", false},
		"over the workspace":      {mountTable + "30 27 8:1 /etc /tmp/w ro,nosuid,nodev - ext4 /dev/a rw\n", true}, // checkSources finds it
		"a weaker one over it":    {mountTable + "30 25 8:2 /local /usr/local rw - ext4 /dev/b rw\n", false},
		"shared":                  {strings.Replace(mountTable, "/dev ro,nosuid -", "/dev ro,nosuid shared:3 -", 1), false},
		"a slave":                 {strings.Replace(mountTable, "/dev ro,nosuid -", "/dev ro,nosuid master:3 -", 1), false},
		"a proc more":             {mountTable + "30 20 0:9 / /opt ro - proc proc rw\n", false},
		"a writable part of proc": {mountTable + "30 21 0:1 /sys /proc/sys rw - proc proc rw\n", false},
		"a device":                {mountTable + "30 22 0:5 /kmsg /dev/kmsg rw - devtmpfs dev rw\n", false},
		"a writable root":         {strings.Replace(mountTable, "/ ro,relatime", "/ rw,relatime", 1), false},
		"without the workspace":   {strings.Replace(mountTable, "27 26 8:1 /w /tmp/w rw,nosuid,nodev - ext4 /dev/a rw\n", "", 1), false},
		"a tmpfs that is a disk":  {strings.Replace(mountTable, "tmpfs tmpfs rw,size=4k", "ext4 /dev/a rw", 1), false},
		"nothing":                 {"", false},
	} {
		found, err := mountinfo.GetMountsFromReader(strings.NewReader(tt.table), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkMountTree(found, mountTableSpec()); (err == nil) != tt.ok {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestCheckSources finds a mount that shows something else, by a process whose
// root we know: our own.
func TestCheckSources(t *testing.T) {
	dir := scratch(t)
	self := processSelf()
	same := &specgen.SpecGenerator{}
	same.Mounts = []specs.Mount{{Type: "bind", Source: dir, Destination: dir}, {Type: "tmpfs", Source: "tmpfs", Destination: "/nowhere"}}
	if err := checkSources(self, same); err != nil {
		t.Errorf("one directory: %v", err)
	}
	other := &specgen.SpecGenerator{}
	other.Mounts = []specs.Mount{{Type: "bind", Source: "/proc", Destination: dir}}
	wantUnproven(t, "two directories", checkSources(self, other))
	other.Mounts[0].Destination = dir + "/absent"
	wantUnproven(t, "a missing one", checkSources(self, other))
}
