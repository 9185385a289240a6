package cli

import (
	"errors"
	"io/fs"
	"testing"
	"testing/fstest"

	"realm.dev/container"
)

func file(text string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644}
}

// machine is a good host for rootless sessions, changed by what.
func machine(what map[string]*fstest.MapFile) host {
	root := fstest.MapFS{
		"proc/sys/user/max_user_namespaces":     file("63000"),
		"proc/sys/kernel/seccomp/actions_avail": file("kill_process errno allow"),
		"sys/fs/cgroup/cgroup.controllers":      file("cpu memory pids"),
		delegated(1000):                         file("cpu memory pids"),
		"etc/subuid":                            file("root:1:2\nann:100000:65536"),
		"etc/subgid":                            file("1000:100000:65536"),
		"usr/bin/newuidmap":                     {Mode: 0o755 | fs.ModeSetuid},
		"usr/bin/newgidmap":                     {Mode: 0o755 | fs.ModeSetuid},
	}
	for name, f := range what {
		if f == nil {
			delete(root, name)
		} else {
			root[name] = f
		}
	}
	return host{
		root: root, uid: 1000, user: "ann", kernel: "6.18.44-generic",
		getenv:  func(string) string { return "/run/user/1000" },
		look:    func(name string) (string, error) { return "/usr/bin/" + name, nil },
		selfish: func(string) error { return nil },
	}
}

func TestChecksOfTheHost(t *testing.T) {
	type files = map[string]*fstest.MapFile
	root := func(h host) host { h.uid = 0; return h }
	kernel := func(release string) func(host) host { return func(h host) host { h.kernel = release; return h } }
	for _, tt := range []struct {
		name   string
		check  func(host) finding
		files  files
		change func(host) host
		want   status
	}{
		{"kernel", checkKernel, nil, nil, statusOK},
		{"kernel-old", checkKernel, nil, kernel("4.18.0-553.el8"), statusFail},
		{"kernel-odd", checkKernel, nil, kernel("next"), statusWarn},
		{"userns", checkUserNamespaces, nil, nil, statusOK},
		{"userns-off", checkUserNamespaces, files{"proc/sys/user/max_user_namespaces": file("0")}, nil, statusFail},
		{"userns-off-for-root", checkUserNamespaces, files{"proc/sys/user/max_user_namespaces": file("0")}, root, statusFail},
		{"userns-root-only", checkUserNamespaces, files{"proc/sys/kernel/unprivileged_userns_clone": file("0")}, nil, statusFail},
		{"userns-root-only-for-root", checkUserNamespaces, files{"proc/sys/kernel/unprivileged_userns_clone": file("0")}, root, statusOK},
		{"apparmor", checkUserNamespaces, files{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1")}, nil, statusFail},
		{"apparmor-profile", checkUserNamespaces, files{
			"proc/sys/kernel/apparmor_restrict_unprivileged_userns": file("1"), "etc/apparmor.d/podman": file("abi"),
		}, nil, statusOK},
		{"seccomp", checkSeccomp, nil, nil, statusOK},
		{"seccomp-none", checkSeccomp, files{"proc/sys/kernel/seccomp/actions_avail": nil}, nil, statusFail},
		{"selinux", checkSELinux, nil, nil, statusOK},
		{"selinux-enforcing", checkSELinux, files{"sys/fs/selinux/enforce": file("1")}, nil, statusWarn},
		{"idmap", checkIDMapping, nil, root, statusOK},
		{"idmap-none", checkIDMapping, nil, kernel("5.10.0-28-amd64"), statusWarn},
		{"cgroup-v2", checkCgroups, nil, nil, statusOK},
		{"cgroup-v2-root", checkCgroups, nil, root, statusOK},
		{"cgroup-no-delegation", checkCgroups, files{delegated(1000): file("memory pids")}, nil, statusWarn},
		{"cgroup-no-user-session", checkCgroups, files{delegated(1000): nil}, nil, statusWarn},
		{"cgroup-v1", checkCgroups, files{"sys/fs/cgroup/cgroup.controllers": nil, "sys/fs/cgroup/memory/tasks": file("")}, nil, statusWarn},
		{"cgroup-none", checkCgroups, files{"sys/fs/cgroup/cgroup.controllers": nil}, nil, statusFail},
		{"runtime-directory", checkRuntimeDir, nil, nil, statusOK},
		{"runtime-directory-unset", checkRuntimeDir, nil, func(h host) host { h.getenv = func(string) string { return "" }; return h }, statusWarn},
		{"runtime-directory-open", checkRuntimeDir, nil, func(h host) host { h.selfish = func(string) error { return errors.New("is open") }; return h }, statusFail},
		{"subuid-by-name", subuid, nil, nil, statusOK},
		{"subgid-by-number", subgid, nil, nil, statusOK},
		{"subuid-few", subuid, files{"etc/subuid": file("ann:100000:1000")}, nil, statusWarn},
		{"subuid-of-another", subuid, files{"etc/subuid": file("bob:100000:65536")}, nil, statusFail},
		{"subuid-nonsense", subuid, files{"etc/subuid": file("ann:100000:-65536\nann:1\nann:a:b")}, nil, statusFail},
		{"subuid-elsewhere", subuid, files{"etc/subuid": nil, "etc/nsswitch.conf": file("subid: sss")}, nil, statusWarn},
		{"newuidmap", newuidmap, nil, nil, statusOK},
		{"newuidmap-powerless", newuidmap, files{"usr/bin/newuidmap": {Mode: 0o755}}, nil, statusFail},
		{"newuidmap-missing", newuidmap, nil, func(h host) host {
			h.look = func(string) (string, error) { return "", errors.New("not found") }
			return h
		}, statusFail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := machine(tt.files)
			if tt.change != nil {
				h = tt.change(h)
			}
			got := tt.check(h)
			if got.Status != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
			if got.Status == statusFail && got.Fix == "" {
				t.Errorf("%+v has no fix", got)
			}
			if got.Name == "" || got.Detail == "" {
				t.Errorf("%+v is not complete", got)
			}
		})
	}
}

func subuid(h host) finding    { return checkSubIDs(h, "subuid") }
func subgid(h host) finding    { return checkSubIDs(h, "subgid") }
func newuidmap(h host) finding { return checkIDMapTool(h, "newuidmap") }

func TestCheckLimits(t *testing.T) {
	for _, tt := range []struct {
		name        string
		controllers []string
		want        status
	}{
		{"all", []string{"cpu", "io", "memory", "pids"}, statusOK},
		{"no-cpu", []string{"memory", "pids"}, statusWarn},
		{"no-memory", []string{"cpu", "pids"}, statusFail},
		{"none", nil, statusFail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := checkLimits(container.Info{Controllers: tt.controllers}); got.Status != tt.want {
				t.Errorf("%+v, want %s", got, tt.want)
			}
		})
	}
}

func TestDescribeEngineNamesEveryHole(t *testing.T) {
	fs := describeEngine(container.Info{Version: "5.4.2", Rootless: true, KnownHoles: []string{"one", "two"}})
	holes := 0
	for _, f := range fs {
		if f.Status == statusWarn {
			holes++
		}
	}
	if holes != 2 {
		t.Errorf("%+v", fs)
	}
}
