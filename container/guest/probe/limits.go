package probe

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

func (r *report) limits(m *wire.ProbeRequest) {
	addEach(r, wire.ProbeRlimit, m.Rlimits, rlimit)
	r.add(wire.ProbeCoreLimit, rlimit(wire.Rlimit{Resource: unix.RLIMIT_CORE}))
	r.add(wire.ProbeCgroupMemory, cgroupValue(m.MemoryBytes, "memory.max", "memory/memory.limit_in_bytes"))
	r.add(wire.ProbeCgroupPids, cgroupValue(m.PidsMax, "pids.max", "pids/pids.max"))
	r.add(wire.ProbeCgroupCPU, cgroupCPU(m.CPUMicros, m.CPUPeriod))
}

func rlimit(want wire.Rlimit) result {
	var got unix.Rlimit
	if err := unix.Prlimit(0, int(want.Resource), nil, &got); err != nil {
		return bad("not visible")
	}
	if want.Resource == unix.RLIMIT_NOFILE { // the Go runtime raised the soft one
		return holds(got.Max == want.Hard && want.Soft <= want.Hard)
	}
	return holds(got.Cur == want.Soft && got.Max == want.Hard)
}

const notCompared = "not compared"

// cgroupValue compares a value with the file of cgroup v2 or v1. Where neither
// is visible it proves nothing and says so: realm reads the values from the
// host as well.
func cgroupValue(want uint64, v2, v1 string) result {
	if want == 0 {
		return pass(notCompared)
	}
	text, ok := readCgroup(v2, v1)
	if !ok {
		return pass("not visible")
	}
	return equals(text, strconv.FormatUint(want, 10))
}

func cgroupCPU(micros, period uint64) result {
	if micros == 0 {
		return pass(notCompared)
	}
	if text, ok := readCgroup("cpu.max"); ok {
		return equals(text, strconv.FormatUint(micros, 10)+" "+strconv.FormatUint(period, 10))
	}
	return worst(
		cgroupValue(period, "", "cpu/cpu.cfs_period_us"),
		cgroupValue(micros, "", "cpu/cpu.cfs_quota_us"),
	)
}

func readCgroup(names ...string) (string, bool) {
	for _, name := range names {
		if name == "" {
			continue
		}
		if b, err := os.ReadFile("/sys/fs/cgroup/" + name); err == nil {
			return strings.TrimSpace(string(b)), true
		}
	}
	return "", false
}
