package realm

import (
	"maps"
	"slices"
	"strings"
)

// programEnv is the environment of a program: a fixed base, the image's own
// variables, the session's, and the call's, later ones winning. Nothing else of
// realm's environment gets in.
func (s *Session) programEnv(b *box, call map[string]string, tty bool) []string {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG": "C.UTF-8",
	}
	for _, kv := range b.image.Env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" && !strings.HasPrefix(name, "REALM_") {
			env[name] = value
		}
	}
	env["HOME"], env["TMPDIR"] = homeInside, "/tmp"
	env["USER"], env["LOGNAME"] = "agent", "agent"
	if b.spec != nil && b.spec.User.Root {
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
