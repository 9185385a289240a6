package podman

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/opencontainers/runtime-spec/specs-go"
	"realm.dev/container"
	"realm.dev/container/seccomp"
	"realm.dev/contract"
)

// Verify compares the container with what was asked for. A service that is not
// ours takes volumes, devices, hooks and more from its user's containers.conf,
// and some versions take some from an image; none of that is let through.
func (e *Engine) Verify(ctx context.Context, id string, s *container.Spec) error {
	want, f, err := e.spec(ctx, s, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	data, err := e.inspect(ctx, id)
	if err != nil {
		return err
	}
	if err := checkCreated(data, want, f); err != nil {
		return err
	}
	if statusOf(data).State == container.Created {
		return nil
	}
	config, err := readConfig(data.OCIConfigPath)
	if err != nil {
		return err
	}
	if err := checkConfig(config, want); err != nil {
		return err
	}
	return checkMounts(data.State.Pid, want)
}

// check is one thing that must hold. found goes to the log, never to the reader.
type check struct {
	what  string
	holds bool
	found any
}

// all returns the first check that does not hold as an error.
func all(checks []check) error {
	for _, c := range checks {
		if !c.holds {
			return contract.Errorf(contract.IsolationUnproven, "the engine set the container up differently: %s", c.what).
				WithCause(fmt.Errorf("found %v", c.found)).
				WithHint("a containers.conf of yours may add to containers: stop its podman.socket, so that realm starts a service of its own")
		}
	}
	return nil
}

// checkCreated compares what the engine tells of a container.
func checkCreated(data *define.InspectContainerData, want *specgen.SpecGenerator, f *facts) error {
	c, h := data.Config, data.HostConfig
	if c == nil || h == nil {
		return contract.Errorf(contract.IsolationUnproven, "the engine does not tell how it set the container up")
	}
	caps := prefixed(want.CapAdd)
	return all([]check{
		{"name", data.Name == want.Name, data.Name},
		{"labels", hasLabels(c.Labels, want.Labels), c.Labels},
		{"root file system", data.Rootfs == want.Rootfs && (want.Rootfs != "" || data.Image != ""), data.Rootfs},
		{"image", want.Image == "" || data.Image == strings.TrimPrefix(want.Image, "sha256:"), data.Image},
		{"runtime", path.Base(data.OCIRuntime) == path.Base(f.Runtime), data.OCIRuntime},
		{"privileged", !h.Privileged, nil},
		{"writable root", h.ReadonlyRootfs == *want.ReadOnlyFilesystem, h.ReadonlyRootfs},
		{"capabilities", sameSet(data.EffectiveCaps, caps) && sameSet(data.BoundingCaps, caps), data.BoundingCaps},
		{"devices", len(h.Devices) == 0, h.Devices},
		{"annotations", harmless(c.Annotations) && harmless(h.Annotations), c.Annotations},
		{"secrets", len(c.Secrets) == 0, c.Secrets},
		{"program", slices.Equal(c.Entrypoint, want.Entrypoint) && len(c.Cmd) == 0, c.Entrypoint},
		{"user", c.User == want.User && len(h.GroupAdd) == 0, c.User},
		{"working directory", c.WorkingDir == want.WorkDir, c.WorkingDir},
		{"health check", c.Healthcheck == nil || slices.Equal(c.Healthcheck.Test, want.HealthConfig.Test), c.Healthcheck},
		{"network", h.NetworkMode == "none" && len(h.PortBindings) == 0, h.NetworkMode},
		{"namespaces", h.PidMode == "private" && h.IpcMode == "private" && h.UTSMode == "private" && h.CgroupMode == "private" && h.UsernsMode == "private", h.UsernsMode},
		{"pod", data.Pod == "" && len(data.Dependencies) == 0 && len(h.VolumesFrom) == 0, data.Pod},
		{"restart policy", h.RestartPolicy == nil || h.RestartPolicy.Name == "no" || h.RestartPolicy.Name == "", h.RestartPolicy},
		{"mounts", sameMounts(data.Mounts, h.Tmpfs, want.Mounts), data.Mounts},
	})
}

func prefixed(caps []string) []string {
	out := make([]string, len(caps))
	for i, c := range caps {
		out[i] = "CAP_" + c
	}
	return out
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// hasLabels allows labels of an image beside ours; none of them means anything
// to the engine or to realm.
func hasLabels(found, want map[string]string) bool {
	for k, v := range want {
		if found[k] != v {
			return false
		}
	}
	return true
}

// harmless says whether annotations do nothing: those that Podman and systemd
// keep for themselves, and Podman's own switches in the position off.
func harmless(annotations map[string]string) bool {
	for k, v := range annotations {
		off := strings.HasPrefix(k, "io.podman.annotations.") && v == define.InspectResponseFalse
		if !off && !slices.Contains([]string{
			"io.container.manager", "org.opencontainers.image.stopSignal", "org.systemd.property.KillSignal", "org.systemd.property.TimeoutStopUSec",
		}, k) {
			return false
		}
	}
	return true
}

// sameMounts compares what the engine lists with what was asked; some of what a
// containers.conf adds is not in that list (see checkConfig).
func sameMounts(found []define.InspectMount, tmpfs map[string]string, want []specs.Mount) bool {
	binds, memory := map[string]specs.Mount{}, 0
	for _, m := range want {
		if m.Type == define.TypeTmpfs {
			memory++
			if _, ok := tmpfs[m.Destination]; !ok {
				return false
			}
			continue
		}
		binds[m.Destination] = m
	}
	if memory != len(tmpfs) || len(found) != len(binds) {
		return false
	}
	for _, m := range found {
		w, ok := binds[m.Destination]
		if !ok || m.Type != define.TypeBind || m.Source != w.Source || m.RW != slices.Contains(w.Options, "rw") {
			return false
		}
	}
	return true
}

// readConfig reads what the runtime was given.
func readConfig(file string) (*specs.Spec, error) {
	unreadable := func(err error) (*specs.Spec, error) {
		return nil, contract.Errorf(contract.IsolationUnproven, "the configuration that the runtime got cannot be read").WithCause(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return unreadable(err)
	}
	var config specs.Spec
	if err := json.Unmarshal(data, &config); err != nil {
		return unreadable(err)
	}
	if config.Process == nil || config.Process.Capabilities == nil || config.Root == nil || config.Linux == nil || config.Linux.Resources == nil {
		return unreadable(nil)
	}
	return &config, nil
}

// checkConfig compares what the runtime was given.
func checkConfig(c *specs.Spec, want *specgen.SpecGenerator) error {
	profile, err := seccomp.Profile(runtime.GOARCH)
	if err != nil {
		return err
	}
	p, l, caps := c.Process, c.Linux, prefixed(want.CapAdd)
	given := p.Capabilities
	return all([]check{
		{"hooks", c.Hooks == nil || noHooks(*c.Hooks), c.Hooks},
		{"program", slices.Equal(p.Args, want.Entrypoint) && p.Cwd == want.WorkDir && !p.Terminal, p.Args},
		{"environment", onlyInitEnv(p.Env), p.Env},
		{"user", p.User.UID == 0 && p.User.GID == 0 && containsAll([]uint32{0, container.ProgramGID}, p.User.AdditionalGids), p.User},
		{"no new privileges", p.NoNewPrivileges, nil},
		{"capabilities", sameSet(given.Bounding, caps) && sameSet(given.Effective, caps) && sameSet(given.Permitted, caps) &&
			len(given.Ambient) == 0 && len(given.Inheritable) == 0, given},
		{"resource limits", sameRlimits(p.Rlimits, want.Rlimits), p.Rlimits},
		{"writable root", c.Root.Readonly == *want.ReadOnlyFilesystem, nil},
		{"annotations", harmless(c.Annotations), c.Annotations},
		{"system call filter", sameFilter(l.Seccomp, profile), nil},
		{"namespaces", sevenNamespaces(l.Namespaces), l.Namespaces},
		{"user ids", sameIDs(l.UIDMappings, l.GIDMappings, want), l.UIDMappings},
		{"devices", len(l.Devices) == 0 && !slices.ContainsFunc(l.Resources.Devices, func(d specs.LinuxDeviceCgroup) bool { return d.Allow }), l.Devices},
		{"cgroup settings", len(l.Resources.Unified) == 0 && l.Resources.BlockIO == nil && len(l.Resources.HugepageLimits) == 0, l.Resources},
		{"kernel parameters", onlyPing(l.Sysctl), l.Sysctl},
		{"masked paths", containsAll(l.MaskedPaths, maskedPaths) && containsAll(l.ReadonlyPaths, readonlyPaths), l.MaskedPaths},
		{"mount propagation", slices.Contains([]string{"", "private", "rprivate"}, l.RootfsPropagation), l.RootfsPropagation},
		{"personality", l.Personality == nil && l.IntelRdt == nil && len(l.TimeOffsets) == 0, l.Personality},
		{"mounts", sameConfigMounts(c.Mounts, want.Mounts, c.Root.Readonly), c.Mounts},
	})
}
