package podman

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// maskedPaths and readonlyPaths are the least that must be kept from programs in
// proc and sys. Podman's own lists, which grow, hold more.
var (
	maskedPaths = append([]string{
		"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi",
		"/proc/timer_list", "/proc/timer_stats", "/sys/firmware",
	}, moreMasks...)
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// How an engine's own mount can be written to.
const (
	writable = iota
	likeRoot // for reading only when the root is
	readOnly
)

// engineMounts are what Podman mounts by itself.
var engineMounts = map[string]struct {
	kind   string
	access int
}{
	"/proc":              {"proc", writable},
	"/dev":               {"tmpfs", likeRoot},
	"/dev/pts":           {"devpts", writable},
	"/dev/mqueue":        {"mqueue", writable},
	"/sys":               {"sysfs", readOnly},
	"/sys/fs/cgroup":     {"cgroup", readOnly},
	"/run/.containerenv": {"bind", likeRoot},
}

func noHooks(h specs.Hooks) bool {
	return len(h.CreateRuntime)+len(h.CreateContainer)+len(h.StartContainer)+len(h.Poststart)+len(h.Poststop) == 0 &&
		len(h.Prestart) == 0 //nolint:staticcheck // engines still write the old hooks
}

// onlyInitEnv allows what Podman adds to the environment of every container.
func onlyInitEnv(env []string) bool {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if want, ok := initEnv[name]; ok && value == want {
			continue
		}
		if !slices.Contains([]string{"HOSTNAME", "HOME", "container", "TERM"}, name) {
			return false
		}
	}
	return true
}

// sameRlimits leaves RLIMIT_NPROC out: rootless Podman adds the user's own.
func sameRlimits(found, want []specs.POSIXRlimit) bool {
	found = slices.DeleteFunc(slices.Clone(found), func(f specs.POSIXRlimit) bool { return f.Type == "RLIMIT_NPROC" })
	if len(found) != len(want) {
		return false
	}
	for _, w := range want {
		w.Type = "RLIMIT_" + w.Type
		// Podman lowers to its own what it cannot give.
		if !slices.ContainsFunc(found, func(f specs.POSIXRlimit) bool { return f.Type == w.Type && f.Hard <= w.Hard && f.Soft <= w.Soft }) {
			return false
		}
	}
	return true
}

// sameFilter compares by the JSON form, in which empty and absent are the same.
func sameFilter(found, want *specs.LinuxSeccomp) bool {
	if found == nil {
		return false
	}
	a, errA := json.Marshal(plainFilter(found))
	b, errB := json.Marshal(plainFilter(want))
	return errA == nil && errB == nil && string(a) == string(b)
}

func plainFilter(f *specs.LinuxSeccomp) specs.LinuxSeccomp {
	out := *f
	out.Syscalls = slices.Clone(f.Syscalls)
	for i := range out.Syscalls {
		if len(out.Syscalls[i].Args) == 0 {
			out.Syscalls[i].Args = nil
		}
	}
	return out
}

// sevenNamespaces: each a new one, none joined.
func sevenNamespaces(list []specs.LinuxNamespace) bool {
	var kinds []string
	for _, n := range list {
		if n.Path != "" {
			return false
		}
		kinds = append(kinds, string(n.Type))
	}
	return sameSet(kinds, []string{"cgroup", "ipc", "mount", "network", "pid", "user", "uts"})
}

// sameIDs compares the map of ids where realm made it; keep-id is Podman's to
// work out, and read back from the kernel.
func sameIDs(uids, gids []specs.LinuxIDMapping, want *specgen.SpecGenerator) bool {
	if want.IDMappings == nil {
		return len(uids) > 0 && len(gids) > 0
	}
	same := func(found []specs.LinuxIDMapping, want []specs.LinuxIDMapping) bool { return slices.Equal(found, want) }
	var wantUIDs, wantGIDs []specs.LinuxIDMapping
	for _, m := range want.IDMappings.UIDMap {
		wantUIDs = append(wantUIDs, specs.LinuxIDMapping{ContainerID: uint32(m.ContainerID), HostID: uint32(m.HostID), Size: uint32(m.Size)})
	}
	for _, m := range want.IDMappings.GIDMap {
		wantGIDs = append(wantGIDs, specs.LinuxIDMapping{ContainerID: uint32(m.ContainerID), HostID: uint32(m.HostID), Size: uint32(m.Size)})
	}
	return same(uids, wantUIDs) && same(gids, wantGIDs)
}

// onlyPing allows the one parameter that Podman sets by default.
func onlyPing(sysctl map[string]string) bool {
	for name := range sysctl {
		if name != "net.ipv4.ping_group_range" {
			return false
		}
	}
	return true
}

func containsAll[T comparable](list, want []T) bool {
	return !slices.ContainsFunc(want, func(w T) bool { return !slices.Contains(list, w) })
}

// sameConfigMounts compares each mount that the runtime was told to make.
func sameConfigMounts(found, want []specs.Mount, rootReadOnly bool) bool {
	asked := map[string]specs.Mount{}
	for _, m := range want {
		asked[m.Destination] = m
	}
	for _, m := range found {
		if w, ok := asked[m.Destination]; ok {
			if m.Type != w.Type || m.Source != w.Source || !sameOptions(m.Options, w.Options) {
				return false
			}
			delete(asked, m.Destination)
			continue
		}
		e, ok := engineMounts[m.Destination]
		mustRead := e.access == readOnly || e.access == likeRoot && rootReadOnly
		if !ok || m.Type != e.kind || mustRead && !slices.Contains(m.Options, "ro") {
			return false
		}
	}
	return len(asked) == 0
}

// sameOptions leaves out what Podman takes for itself before the runtime sees it.
func sameOptions(found, want []string) bool {
	want = slices.DeleteFunc(slices.Clone(want), func(o string) bool { return o == "notmpcopyup" || strings.HasPrefix(o, "idmap=") })
	return sameSet(found, want)
}
