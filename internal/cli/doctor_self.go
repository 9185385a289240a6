package cli

import (
	"context"
	"os"
	"strings"

	"realm.dev/container"
	"realm.dev/contract"
	"realm.dev/realm"
)

// checkEngine asks the engine who it is, starting a service if none answers.
// Info is nil when it does not tell.
func (a *app) checkEngine(ctx context.Context, url string) (*container.Info, []finding) {
	ctx, cancel := context.WithTimeout(ctx, engineBudget)
	defer cancel()
	dirs, err := realm.DefaultDirs()
	if err != nil {
		return nil, []finding{failed("engine", err)}
	}
	engine, err := a.openEngine(ctx, dirs, url)
	if err != nil {
		return nil, []finding{failed("engine", err)}
	}
	defer func() { _ = engine.Close() }()
	info, err := engine.Version(ctx)
	if err != nil {
		return nil, []finding{failed("engine", err)}
	}
	return &info, describeEngine(info)
}

// failed is a check that ended in an error: its hint is the fix.
func failed(name string, err error) finding {
	e := contract.AsError(err)
	detail := e.Detail
	if detail == "" {
		detail = e.Reason
	}
	return bad(name, e.Hint, "%s (%s)", detail, e.Code)
}

func describeEngine(info container.Info) []finding {
	kind := "rootful"
	if info.Rootless {
		kind = "rootless"
	}
	fs := []finding{
		good("engine", "Podman %s, %s, cgroups %s", info.Version, kind, info.CgroupVersion),
		good("runtime", "%s %s", info.Runtime, info.RuntimeVersion),
	}
	for _, hole := range info.KnownHoles {
		fs = append(fs, warn("known-hole", "upgrade the engine", "%s", hole))
	}
	return fs
}

// checkInit looks for the program that is PID 1 of every session.
func checkInit() finding {
	path, err := findInit()
	if err != nil {
		return failed(initName, err)
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm()&0o005 != 0o005 {
		return bad(initName, "chmod 0755 it", "%s must be readable and executable by everybody: it runs as other users inside", path)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return bad(initName, "chmod go-w it", "%s can be changed by others", path)
	}
	return good(initName, "%s", path)
}

// checkDirs looks at the directories that realm keeps. One that is not there
// yet is made by the first session.
func checkDirs() finding {
	const name = "directories"
	dirs, err := realm.DefaultDirs()
	if err != nil {
		return failed(name, err)
	}
	for _, dir := range []string{dirs.State, dirs.Runtime} {
		if _, err := os.Lstat(dir); err != nil {
			continue
		}
		if err := private(dir); err != nil {
			return bad(name, "chmod 0700 it, or move it away", "%s %v", dir, err)
		}
	}
	return good(name, "%s", strings.Join([]string{dirs.State, dirs.Runtime}, " and "))
}
