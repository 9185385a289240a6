package cli

import (
	"slices"
	"strconv"
	"strings"

	"realm.dev/container"
)

// checkCgroups tells which hierarchy there is and, rootless, what is delegated.
func checkCgroups(h host) finding {
	const name = "cgroups"
	switch {
	case h.exists("sys/fs/cgroup/cgroup.controllers"):
		return checkDelegation(h)
	case h.exists("sys/fs/cgroup/memory"):
		if h.uid != 0 {
			return warn(name, "boot with systemd.unified_cgroup_hierarchy=1", "v1: it cannot be delegated, so rootless sessions have no limits")
		}
		return warn(name, "boot with systemd.unified_cgroup_hierarchy=1", "v1; v2 is better supported")
	}
	return bad(name, "mount the cgroup2 file system on /sys/fs/cgroup", "none found in /sys/fs/cgroup")
}

// delegated is where systemd hands controllers to a user.
func delegated(uid int) string {
	n := strconv.Itoa(uid)
	return "sys/fs/cgroup/user.slice/user-" + n + ".slice/user@" + n + ".service/cgroup.controllers"
}

func checkDelegation(h host) finding {
	const name = "cgroups"
	file := "sys/fs/cgroup/cgroup.controllers"
	if h.uid != 0 {
		file = delegated(h.uid)
	}
	if !h.exists(file) {
		return warn(name, "log in through systemd-logind (loginctl enable-linger helps services)", "v2, without a systemd user session to delegate controllers")
	}
	have := strings.Fields(h.read(file))
	if missing := missingControllers(have); len(missing) > 0 {
		return warn(name, "systemctl edit user@.service: [Service] Delegate=cpu cpuset io memory pids",
			"v2; not delegated to this user: %s", strings.Join(missing, ", "))
	}
	return good(name, "v2 with %s", strings.Join(have, ", "))
}

func missingControllers(have []string) (missing []string) {
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !slices.Contains(have, c) {
			missing = append(missing, c)
		}
	}
	return missing
}

// checkLimits is the engine's own word on what it can enforce.
func checkLimits(info container.Info) finding {
	const name = "limits"
	missing := missingControllers(info.Controllers)
	switch {
	case len(missing) == 0:
		return good(name, "memory, pids and cpus are enforced")
	case slices.Contains(missing, "memory"):
		return bad(name, "give Podman the memory controller (see cgroups), or accept it per run with --allow-unenforced memory",
			"the engine cannot enforce: %s", strings.Join(missing, ", "))
	}
	return warn(name, "give Podman these controllers (see cgroups)", "the engine cannot enforce: %s", strings.Join(missing, ", "))
}
