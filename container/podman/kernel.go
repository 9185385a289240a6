package podman

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// process reads what the kernel says about one process.
type process struct{ dir string }

func processOf(pid int) process { return process{filepath.Join("/proc", strconv.Itoa(pid))} }

// status returns the fields of /proc/PID/status.
func (p process) status() (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(p.dir, "status"))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields, nil
}

// ids returns uid_map or gid_map.
func (p process) ids(file string) ([]specs.LinuxIDMapping, error) {
	data, err := os.ReadFile(filepath.Join(p.dir, file))
	if err != nil {
		return nil, err
	}
	return parseIDs(string(data))
}

func parseIDs(text string) ([]specs.LinuxIDMapping, error) {
	var list []specs.LinuxIDMapping
	for line := range strings.Lines(text) {
		var m specs.LinuxIDMapping
		if _, err := fmt.Sscan(line, &m.ContainerID, &m.HostID, &m.Size); err != nil {
			return nil, fmt.Errorf("id map: %w", err)
		}
		list = append(list, m)
	}
	return list, nil
}

// hostID returns what an id of the namespace is on the host.
func hostID(m []specs.LinuxIDMapping, id uint32) (uint32, bool) {
	for _, r := range m {
		if id >= r.ContainerID && id-r.ContainerID < r.Size {
			return r.HostID + (id - r.ContainerID), true
		}
	}
	return 0, false
}

// reachesRoot says whether some id of the namespace is 0 on the host; the
// identity is one such map.
func reachesRoot(m []specs.LinuxIDMapping) bool {
	for _, r := range m {
		if r.HostID == 0 && r.Size > 0 {
			return true
		}
	}
	return false
}

// limit returns the hard limit of /proc/PID/limits by its name there; infinite
// is the largest number.
func (p process) limit(name string) (float64, error) {
	data, err := os.ReadFile(filepath.Join(p.dir, "limits"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		rest, ok := strings.CutPrefix(line, name)
		if fields := strings.Fields(rest); ok && len(fields) >= 2 {
			return number(fields[1])
		}
	}
	return 0, fmt.Errorf("no limit of that name")
}

// number reads a limit as the kernel writes it.
func number(s string) (float64, error) {
	if s == "max" || s == "unlimited" || s == "-1" {
		return math.Inf(1), nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	// cgroup v1 writes "no limit" as the largest number of pages.
	if n >= math.MaxInt64/4096*4096 {
		return math.Inf(1), err
	}
	return float64(n), err
}

// cgroup finds and reads the control files of a process's cgroup.
type cgroup struct {
	v2     string            // directory of the unified hierarchy
	legacy map[string]string // directory by controller, cgroup v1
}

// cgroup returns where the limits of p are.
func (p process) cgroup() (cgroup, error) {
	data, err := os.ReadFile(filepath.Join(p.dir, "cgroup"))
	if err != nil {
		return cgroup{}, err
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != "cgroup" && m.FSType != "cgroup2", false
	})
	if err != nil {
		return cgroup{}, err
	}
	return findCgroup(string(data), mounts), nil
}

func findCgroup(text string, mounts []*mountinfo.Info) cgroup {
	c := cgroup{legacy: map[string]string{}}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, m := range mounts {
			dir, ok := below(m, parts[2])
			switch {
			case !ok:
			case parts[1] == "" && m.FSType == "cgroup2":
				c.v2 = dir
			case m.FSType == "cgroup":
				for _, controller := range strings.Split(parts[1], ",") {
					if !strings.HasPrefix(controller, "name=") && hasOption(m.VFSOptions, controller) {
						c.legacy[controller] = dir
					}
				}
			}
		}
	}
	return c
}

// below returns the directory of a cgroup in a hierarchy that is mounted from
// some cgroup on, as inside of another container.
func below(m *mountinfo.Info, cgroupPath string) (string, bool) {
	rel, ok := strings.CutPrefix(cgroupPath, strings.TrimSuffix(m.Root, "/"))
	if !ok || rel != "" && !strings.HasPrefix(rel, "/") {
		return "", false
	}
	return filepath.Join(m.Mountpoint, rel), true
}

func hasOption(options, name string) bool {
	for _, o := range strings.Split(options, ",") {
		if o == name {
			return true
		}
	}
	return false
}

// fields reads a control file of a controller: v2 has one name for it, v1 another.
func (c cgroup) fields(controller, v2, v1 string) ([]string, error) {
	file := filepath.Join(c.v2, v2)
	if dir, ok := c.legacy[controller]; ok {
		file = filepath.Join(dir, v1)
	} else if c.v2 == "" {
		return nil, os.ErrNotExist
	}
	data, err := os.ReadFile(file)
	return strings.Fields(string(data)), err
}

// value reads a control file with one number.
func (c cgroup) value(controller, v2, v1 string) (float64, error) {
	fields, err := c.fields(controller, v2, v1)
	if err != nil {
		return 0, err
	}
	if len(fields) != 1 {
		return 0, fmt.Errorf("a control file of %s has %d fields", controller, len(fields))
	}
	return number(fields[0])
}

// cpus reads the share of CPUs.
func (c cgroup) cpus() (float64, error) {
	if _, ok := c.legacy["cpu"]; ok {
		quota, err := c.value("cpu", "", "cpu.cfs_quota_us")
		if err != nil {
			return 0, err
		}
		period, err := c.value("cpu", "", "cpu.cfs_period_us")
		return quota / period, err
	}
	fields, err := c.fields("cpu", "cpu.max", "")
	if err != nil || len(fields) != 2 {
		return 0, fmt.Errorf("cpu.max: %w", err)
	}
	quota, err := number(fields[0])
	if err != nil {
		return 0, err
	}
	period, err := number(fields[1])
	return quota / period, err
}
