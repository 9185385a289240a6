package realm

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"realm.dev/container"
)

// basePath is where programs are looked up in any session.
var basePath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// programEnv is the environment of a program: a fixed base, the image's own
// variables, the session's, and the call's, later ones winning. Nothing else of
// realm's environment gets in.
func (s *Session) programEnv(b *box, call map[string]string, tty bool) []string {
	env := map[string]string{
		"PATH": searchPath(b.spec, s.req.SearchPath),
		"LANG": "C.UTF-8",
	}
	for _, kv := range b.image.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" && !strings.HasPrefix(name, "REALM_") {
			env[name] = value
		}
	}
	env["HOME"], env["TMPDIR"] = homeInside, "/tmp"
	env["USER"], env["LOGNAME"] = "agent", "agent"
	if b.spec.User.Root {
		env["USER"], env["LOGNAME"] = "root", "root"
	}
	if tty {
		env["TERM"] = "xterm-256color"
	}
	maps.Copy(env, s.req.Env)
	maps.Copy(env, call)
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	slices.Sort(list)
	return list
}

// searchPath is the caller's search path as far as the session shows it, before
// the usual directories: with this machine's /usr a program is found where the
// caller finds it. An image has a search path of its own.
func searchPath(spec *container.Spec, callers []string) string {
	var list []string
	for _, dir := range append(slices.Clone(callers), basePath...) {
		if !slices.Contains(list, dir) && (slices.Contains(basePath, dir) || spec.Image == "" && shows(spec, dir)) {
			list = append(list, dir)
		}
	}
	return strings.Join(list, ":")
}

// shows reports whether a bind of spec shows the host's directory dir.
func shows(spec *container.Spec, dir string) bool {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || strings.Contains(dir, ":") {
		return false
	}
	return slices.ContainsFunc(append(slices.Clone(spec.Binds), spec.Workspace), func(b container.Bind) bool {
		return b.Exec && b.Source == b.Destination && (dir == b.Destination || strings.HasPrefix(dir, b.Destination+"/"))
	})
}
