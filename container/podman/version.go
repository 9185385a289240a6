package podman

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"realm.dev/contract"
)

// version of Podman or a runtime. What follows the numbers ("-dev", "+git") does
// not matter to any comparison here.
type version struct{ major, minor, patch int }

func (v version) String() string { return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch) }

func (v version) before(o version) bool {
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor), cmp.Compare(v.patch, o.patch)) < 0
}

// parseVersion reads "5.4.2", "v5.8.0-dev" and "1.21".
func parseVersion(s string) (version, bool) {
	s = strings.TrimPrefix(s, "v")
	if i := strings.IndexAny(s, "-+~ "); i >= 0 {
		s = s[:i]
	}
	fields := strings.Split(s, ".")
	if len(fields) < 2 || len(fields) > 3 {
		return version{}, false
	}
	var numbers [3]int
	for i, field := range fields {
		n, err := strconv.ParseUint(field, 10, 16)
		if err != nil {
			return version{}, false
		}
		numbers[i] = int(n)
	}
	return version{numbers[0], numbers[1], numbers[2]}, true
}

// oldest is the first Podman whose API does all that realm asks for.
var oldest = version{5, 0, 0}

// gate refuses an engine that is too old.
func (v version) gate() error {
	if v.before(oldest) {
		return contract.Errorf(contract.PodmanUnsupportedVersion, "found Podman %s, needed %s or newer", v, oldest).
			WithHint("update Podman; Debian 13, Fedora 40 and Ubuntu 24.10 and later have one that is new enough")
	}
	return nil
}

// hole is a published hole of a program, closed in fixed and in the later
// patches of the other minor versions that branches name.
type hole struct {
	program  string
	fixed    version
	branches []version
	name     string
}

// holes are those that matter to a sandbox. realm runs on versions that have
// them, and says so.
var holes = []hole{
	{"podman", version{5, 8, 8}, nil, "GO-2026-6770: an image annotation can turn sandboxing off (Podman before 5.8.8; realm refuses containers with annotations)"},
	{"podman", version{5, 7, 1}, nil, "CVE-2026-55686: an image's WORKDIR link is followed on the host (Podman before 5.7.1; realm takes no WORKDIR from images)"},
	{"crun", version{1, 30, 0}, nil, "CVE-2026-84042, CVE-2026-88264, CVE-2026-88265: links in an image are followed while mounting (crun before 1.30)"},
	{"runc", version{1, 4, 3}, []version{{1, 3, 6}}, "CVE-2026-41579: links in an image are followed while mounting (runc before 1.3.6 or 1.4.3)"},
}

// knownHoles names the holes of a program's version. A version that cannot be
// read may have all of them.
func knownHoles(program, text string) []string {
	v, ok := parseVersion(text)
	names := []string{}
	for _, h := range holes {
		if h.program == program && (!ok || h.open(v)) {
			names = append(names, h.name)
		}
	}
	return names
}

func (h hole) open(v version) bool {
	for _, b := range h.branches {
		if v.major == b.major && v.minor == b.minor {
			return v.before(b)
		}
	}
	return v.before(h.fixed)
}
