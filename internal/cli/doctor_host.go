package cli

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container"
)

// host is what the checks see of this machine; tests give another.
type host struct {
	root    fs.FS // "/", names without the leading slash
	uid     int
	user    string
	kernel  string // the release, "6.18.44-generic"
	getenv  func(string) string
	look    func(name string) (string, error) // finds a program
	selfish func(path string) error           // reports why a directory is not this user's alone
}

func thisHost() host {
	h := host{root: os.DirFS("/"), uid: os.Geteuid(), getenv: os.Getenv, look: exec.LookPath, selfish: private}
	if u, err := user.Current(); err == nil {
		h.user = u.Username
	}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		h.kernel = unix.ByteSliceToString(uts.Release[:])
	}
	return h
}

// rootful reports whether sessions run on a rootful engine: what the engine
// says, else what this user could have.
func (h host) rootful(info *container.Info) bool {
	if info != nil {
		return !info.Rootless
	}
	return h.uid == 0
}

// read returns a small file's text without the line's end, "" when there is none.
func (h host) read(name string) string {
	b, err := fs.ReadFile(h.root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func (h host) exists(name string) bool {
	_, err := fs.Stat(h.root, name)
	return err == nil
}

// The kernels from which on something exists.
var (
	kernelNeeded = [2]int{5, 6}  // pidfd_open, clone3's ENOSYS handling, openat2
	kernelIdmap  = [2]int{5, 12} // idmapped mounts
)

// version reads the first two numbers of a kernel release.
func version(release string) (v [2]int, ok bool) {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minor = rest[:i]
	}
	var err1, err2 error
	v[0], err1 = strconv.Atoi(major)
	v[1], err2 = strconv.Atoi(minor)
	return v, err1 == nil && err2 == nil
}

func older(v, than [2]int) bool {
	return v[0] < than[0] || v[0] == than[0] && v[1] < than[1]
}

func checkKernel(h host) finding {
	v, ok := version(h.kernel)
	switch {
	case !ok:
		return warn("kernel", "", "the release %q is not understood", h.kernel)
	case older(v, kernelNeeded):
		return bad("kernel", "run Linux 5.12 or later", "Linux %s is older than %d.%d", h.kernel, kernelNeeded[0], kernelNeeded[1])
	}
	return good("kernel", "Linux %s", h.kernel)
}

// checkUserNamespaces is for rootful sessions too: each has a user namespace.
func checkUserNamespaces(h host) finding {
	const name = "user-namespaces"
	if n := h.read("proc/sys/user/max_user_namespaces"); n == "0" || n == "" {
		return bad(name, "sysctl -w user.max_user_namespaces=15000", "user namespaces are off (user.max_user_namespaces is 0 or missing)")
	}
	if h.uid == 0 {
		return good(name, "allowed")
	}
	if h.read("proc/sys/kernel/unprivileged_userns_clone") == "0" {
		return bad(name, "sysctl -w kernel.unprivileged_userns_clone=1", "only root may make user namespaces (kernel.unprivileged_userns_clone is 0)")
	}
	if h.read("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && !h.exists("etc/apparmor.d/podman") {
		return bad(name, "install the AppArmor profile of podman, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
			"AppArmor restricts unprivileged user namespaces and has no profile for podman")
	}
	return good(name, "allowed without privileges")
}

func checkSeccomp(h host) finding {
	actions := strings.Fields(h.read("proc/sys/kernel/seccomp/actions_avail"))
	for _, a := range actions {
		if a == "errno" {
			return good("seccomp", "filters can answer with an error")
		}
	}
	return bad("seccomp", "run a kernel with CONFIG_SECCOMP_FILTER", "the kernel has no seccomp filters")
}

func checkSELinux(h host) finding {
	if h.read("sys/fs/selinux/enforce") == "1" {
		return warn("selinux", "", "enforcing; sessions run with label=disable, so that your files are not relabelled")
	}
	return good("selinux", "not enforcing")
}

// checkIDMapping is about rootful sessions: with idmapped mounts they need no
// ownership of the workspace.
func checkIDMapping(h host) finding {
	if v, ok := version(h.kernel); !ok || older(v, kernelIdmap) {
		return warn("idmapped-mounts", "run Linux 5.12 or later", "not in Linux %s; workspaces of root are refused", h.kernel)
	}
	return good("idmapped-mounts", "the kernel has them; whether a workspace's file system does is found at start")
}

// subIDs is how many ids a session's user namespace needs.
const subIDs = 65536

// checkSubIDs looks for this user's range in /etc/subuid or /etc/subgid.
func checkSubIDs(h host, file string) finding {
	flag := map[string]string{"subuid": "--add-subuids", "subgid": "--add-subgids"}[file]
	fix := "usermod " + flag + " 100000-165535 " + h.user + ", then podman system migrate"
	if n := rangeOf(h.read("etc/"+file), h.user, strconv.Itoa(h.uid)); n >= subIDs {
		return good(file, "%d ids", n)
	} else if n > 0 {
		return warn(file, fix, "%d ids, fewer than %d", n, subIDs)
	}
	if text := h.read("etc/nsswitch.conf"); strings.Contains(text, file+":") || strings.Contains(text, "subid:") {
		return warn(file, "", "ranges come from a name service that is not asked here")
	}
	return bad(file, fix, "/etc/%s has no range for this user", file)
}

// rangeOf sums the ids that belong to a user, by name or number.
func rangeOf(text, name, uid string) (n int) {
	lines := bufio.NewScanner(bytes.NewReader([]byte(text)))
	for lines.Scan() {
		fields := strings.Split(strings.TrimSpace(lines.Text()), ":")
		if len(fields) != 3 || fields[0] != name && fields[0] != uid {
			continue
		}
		if count, err := strconv.Atoi(fields[2]); err == nil && count > 0 {
			n += count
		}
	}
	return n
}

// checkIDMapTool looks for newuidmap or newgidmap, which must have a privilege.
func checkIDMapTool(h host, tool string) finding {
	const fix = "install the package uidmap or shadow-utils"
	path, err := h.look(tool)
	if err != nil {
		return bad(tool, fix, "not found")
	}
	fi, err := fs.Stat(h.root, strings.TrimPrefix(path, "/"))
	if err != nil {
		return bad(tool, fix, "%s cannot be read", path)
	}
	if fi.Mode()&fs.ModeSetuid == 0 && !hasFileCapability(path) {
		return bad(tool, "reinstall it, or setcap the capability on it", "%s is neither setuid nor has it a file capability", path)
	}
	return good(tool, "%s", path)
}

func hasFileCapability(path string) bool {
	n, err := unix.Getxattr(path, "security.capability", nil)
	return err == nil && n > 0
}

func checkRuntimeDir(h host) finding {
	const name = "runtime-directory"
	dir := h.getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return warn(name, "log in through systemd-logind, or set XDG_RUNTIME_DIR to a private directory",
			"XDG_RUNTIME_DIR is not set; Podman and realm use directories in /tmp")
	}
	if err := h.selfish(dir); err != nil {
		return bad(name, "chmod 0700 it, or set XDG_RUNTIME_DIR to a directory of this user", "XDG_RUNTIME_DIR %v", err)
	}
	return good(name, "%s", dir)
}
