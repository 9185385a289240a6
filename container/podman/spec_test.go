package podman

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containers/podman/v5/pkg/specgen"
	"github.com/google/go-cmp/cmp"
	"realm.dev/container"
	"realm.dev/contract"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sample is a spec with one mount of each kind.
func sample() *container.Spec {
	return &container.Spec{
		RealmID: "local", SessionID: "s1", Epoch: "e1", Hostname: "s1", Rootfs: "/var/lib/realm/s1/root",
		Init:      container.Init{Binary: "/usr/libexec/realm/realm-init", SocketDir: "/run/realm/s1", Args: []string{"/.realm/link/init.sock"}},
		User:      container.User{OwnerUID: 1234, OwnerGID: 1235, Base: 0x77400000},
		Workspace: container.Bind{Source: "/home/u/w", Destination: "/home/u/w", Write: true, Exec: true, Owned: true, Role: "workspace"},
		Binds: []container.Bind{
			{Source: "/usr", Destination: "/usr", Exec: true, Role: "usr"},
			{Source: "/home/u/w/.git", Destination: "/home/u/w/.git", Owned: true, Role: "git"},
			{Source: "/var/lib/realm/s1/hosts", Destination: "/etc/hosts", Role: "etc"},
		},
		Tmpfs: []container.Tmpfs{
			{Destination: "/tmp", SizeBytes: 64 << 20},
			{Destination: "/home", SizeBytes: 32 << 20, Mode: 0o755},
			{Destination: "/dev/shm", SizeBytes: 16 << 20, NoExec: true},
		},
		Limits:         container.Limits{MemoryBytes: 2 << 30, CPUs: 1.5, Pids: 512, OpenFiles: 4096},
		SeccompProfile: "/var/lib/realm/s1/seccomp.json",
	}
}

func rootful() *facts {
	return &facts{Info: container.Info{Runtime: "crun", CgroupVersion: "v2", Controllers: []string{"cpu", "memory", "pids"}}}
}

func rootless() *facts {
	f := rootful()
	f.Rootless = true
	return f
}

// TestBuildSpecGolden is the sandbox as Podman is asked for it: a change of the
// golden files is a change of the sandbox.
func TestBuildSpecGolden(t *testing.T) {
	withImage := func(s *container.Spec) {
		s.Rootfs, s.Image = "", "sha256:"+strings.Repeat("ab", 32)
	}
	for name, tt := range map[string]struct {
		facts  *facts
		change func(*container.Spec)
	}{
		"rootful-idmap":      {rootful(), func(s *container.Spec) { s.User.Idmap, s.User.OwnerUID, s.User.OwnerGID = true, 0, 0 }},
		"rootful-by-hand":    {rootful(), func(*container.Spec) {}},
		"rootless":           {rootless(), func(*container.Spec) {}},
		"rootful-image":      {rootful(), func(s *container.Spec) { withImage(s); s.User.Idmap = true }},
		"rootful-image-root": {rootful(), func(s *container.Spec) { withImage(s); s.User.Root = true }},
		"rootless-image-root": {rootless(), func(s *container.Spec) {
			withImage(s)
			s.User.Root = true
			s.Workspace.Write = false
		}},
		"rootless-cgroup-v1": {
			&facts{Info: container.Info{Rootless: true, CgroupVersion: "v1"}, MaxOpenFiles: 1024},
			func(s *container.Spec) { s.Limits.AllowUnenforced = []string{"memory"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sample()
			tt.change(s)
			g, err := buildSpec(s, tt.facts)
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(g, "", "\t")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBuildSpecLeavesNothingOpen checks the fields that Podman fills from an
// image or a containers.conf when a request leaves them out.
func TestBuildSpecLeavesNothingOpen(t *testing.T) {
	g, err := buildSpec(sample(), rootful())
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(g)
	if err != nil {
		t.Fatal(err)
	}
	var sent map[string]any
	if err := json.Unmarshal(data, &sent); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{
		"name", "entrypoint", "env_host", "httpproxy", "env", "terminal", "stdin", "stop_signal", "stop_timeout", "log_configuration", "restart_policy",
		"systemd", "sdnotifyMode", "pidns", "utsns", "hostname", "unsetenvall", "manage_password", "image_volume_mode", "init", "ipcns", "shm_size", "work_dir",
		"create_working_dir", "rootfs_propagation", "privileged", "user", "cap_drop", "cap_add", "selinux_opts", "seccomp_policy", "seccomp_profile_path",
		"no_new_privileges", "userns", "read_only_filesystem", "read_write_tmpfs", "umask", "cgroupns", "cgroups_mode", "netns", "publish_image_ports",
		"use_image_resolve_conf", "use_image_hostname", "use_image_hosts", "base_hosts_file", "resource_limits", "r_limits", "healthconfig", "labels",
	} {
		switch v := sent[field].(type) {
		case nil:
			t.Errorf("%s is left to the engine", field)
		case map[string]any:
			if len(v) == 0 {
				t.Errorf("%s is left to the engine", field)
			}
		}
	}
	for _, field := range []string{"devices", "volumes", "volumes_from", "secrets", "unmask", "portmappings", "pod", "dependencyContainers"} {
		if _, ok := sent[field]; ok {
			t.Errorf("%s is asked for", field)
		}
	}
}

func TestBuildSpecRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		facts  *facts
		change func(*container.Spec)
		want   contract.Code
	}{
		"a workspace of root's without idmap": {rootful(), func(s *container.Spec) { s.User.OwnerUID = 0 }, contract.IsolationUnproven},
		"a group of root's without idmap":     {rootful(), func(s *container.Spec) { s.User.OwnerGID = 0 }, contract.IsolationUnproven},
		"no base":                             {rootful(), func(s *container.Spec) { s.User.Base = 0 }, contract.Internal},
		"a base among the host's users":       {rootful(), func(s *container.Spec) { s.User.Base = 1000 }, contract.Internal},
		"a base at the end":                   {rootful(), func(s *container.Spec) { s.User.Base = 0xffff0000 }, contract.Internal},
		"an invalid spec":                     {rootful(), func(s *container.Spec) { s.Limits.MemoryBytes = 0 }, contract.Internal},
		"memory on cgroup v1, rootless":       {&facts{Info: container.Info{Rootless: true, CgroupVersion: "v1"}}, func(*container.Spec) {}, contract.IsolationUnproven},
		"memory that is not delegated": {
			&facts{Info: container.Info{Rootless: true, CgroupVersion: "v2", Controllers: []string{"pids"}}},
			func(*container.Spec) {}, contract.IsolationUnproven,
		},
	} {
		s := sample()
		tt.change(s)
		if _, err := buildSpec(s, tt.facts); contract.CodeOf(err) != tt.want {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
}

// TestNoMapReachesRoot holds every map of ids against the host's root, and
// against ids of other sessions.
func TestNoMapReachesRoot(t *testing.T) {
	for _, root := range []bool{false, true} {
		for _, mapped := range []bool{false, true} {
			u := container.User{OwnerUID: 1000, OwnerGID: 100, Base: 0x77400000, Idmap: mapped, Root: root}
			ns, ids, err := userNamespace(u, rootful())
			if err != nil || ns.NSMode != specgen.Private {
				t.Fatalf("%+v: %+v, %v", u, ns, err)
			}
			seen := map[int]bool{}
			for _, m := range ids.UIDMap {
				for i := range m.Size {
					if seen[m.ContainerID+i] {
						t.Fatalf("%+v: id %d is mapped twice", u, m.ContainerID+i)
					}
					seen[m.ContainerID+i] = true
				}
				ours := m.HostID >= int(u.Base) && m.HostID+m.Size <= int(u.Base)+65536
				if !ours && (m.HostID != int(u.OwnerUID) || m.Size != 1) {
					t.Errorf("%+v: %+v reaches ids that are not the session's", u, m)
				}
			}
			if len(seen) != 65536 {
				t.Errorf("%+v: %d ids are mapped", u, len(seen))
			}
		}
	}
}

func FuzzBuildSpec(f *testing.F) {
	f.Add("s1", "/home/u/w", "/tmp", int64(1), uint32(1000), uint32(0x77400000), false)
	f.Add("..", "/home/u/w,rw", "/dev/shm", int64(-1), uint32(0), uint32(0), true)
	f.Fuzz(func(t *testing.T, id, dest, tmp string, pids int64, owner, base uint32, mapped bool) {
		s := sample()
		s.SessionID, s.Workspace.Destination, s.Tmpfs[0].Destination = id, dest, tmp
		s.Limits.Pids, s.User.OwnerUID, s.User.Base, s.User.Idmap = pids, owner, base, mapped
		g, err := buildSpec(s, rootful())
		if err != nil {
			return
		}
		data, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		if *g.Privileged || !*g.NoNewPrivileges || !*g.ReadOnlyFilesystem || len(g.Devices) != 0 || g.NetNS.NSMode != specgen.NoNetwork {
			t.Errorf("a sandbox with a hole: %s", data)
		}
		if !mapped && owner == 0 {
			t.Error("the workspace of root is mapped by hand")
		}
		seen := map[string]bool{}
		for _, m := range g.Mounts {
			if seen[m.Destination] || !slices.Contains(m.Options, "nosuid") || !slices.Contains(m.Options, "nodev") {
				t.Errorf("mount %+v", m)
			}
			seen[m.Destination] = true
		}
		if bytes.Contains(data, []byte("\x00")) {
			t.Error("a NUL is in the request")
		}
	})
}
