package container

import (
	"testing"

	"realm.dev/contract"
)

func valid() *Spec {
	return &Spec{
		RealmID: "local", SessionID: "s-1", Epoch: "e1", Rootfs: "/var/lib/r", Hostname: "s-1",
		Init:           Init{Binary: "/usr/libexec/realm-init", SocketDir: "/run/link"},
		SeccompProfile: "/var/lib/seccomp.json",
		Workspace:      Bind{Source: "/home/u/w", Destination: "/home/u/w"},
		Binds:          []Bind{{Source: "/usr", Destination: "/usr"}},
		Tmpfs:          []Tmpfs{{Destination: "/dev/shm", SizeBytes: 1}, {Destination: "/tmp", SizeBytes: 1}},
		Limits:         Limits{MemoryBytes: 1, CPUs: 1, Pids: 1, OpenFiles: 1},
	}
}

func TestValidate(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"no session id":            func(s *Spec) { s.SessionID = "" },
		"session id with a slash":  func(s *Spec) { s.SessionID = "a/b" },
		"session id as an option":  func(s *Spec) { s.SessionID = "-rf" },
		"epoch with a comma":       func(s *Spec) { s.Epoch = "a,b" },
		"host name with a space":   func(s *Spec) { s.Hostname = "a b" },
		"long host name":           func(s *Spec) { s.Hostname = string(make([]byte, 65)) },
		"no root":                  func(s *Spec) { s.Rootfs = "" },
		"two roots":                func(s *Spec) { s.Image = "sha256:1" },
		"image as an option":       func(s *Spec) { s.Rootfs, s.Image = "", "--privileged" },
		"relative rootfs":          func(s *Spec) { s.Rootfs = "r" },
		"rootfs with dots":         func(s *Spec) { s.Rootfs = "/a/../b" },
		"no init":                  func(s *Spec) { s.Init.Binary = "" },
		"no seccomp profile":       func(s *Spec) { s.SeccompProfile = "" },
		"unlimited memory":         func(s *Spec) { s.Limits.MemoryBytes = 0 },
		"unlimited pids":           func(s *Spec) { s.Limits.Pids = -1 },
		"unlimited cpus":           func(s *Spec) { s.Limits.CPUs = 0 },
		"unlimited files":          func(s *Spec) { s.Limits.OpenFiles = 0 },
		"relative source":          func(s *Spec) { s.Workspace.Source = "w" },
		"NUL in a source":          func(s *Spec) { s.Workspace.Source = "/w\x00x" },
		"workspace at the root":    func(s *Spec) { s.Workspace.Destination = "/" },
		"workspace on proc":        func(s *Spec) { s.Workspace.Destination = "/proc/1" },
		"workspace on dev":         func(s *Spec) { s.Workspace.Destination = "/dev" },
		"workspace on init":        func(s *Spec) { s.Workspace.Destination = InitPath },
		"a bind beside init":       func(s *Spec) { s.Binds[0].Destination = "/.realm/x" },
		"two mounts at one place":  func(s *Spec) { s.Binds = append(s.Binds, s.Workspace) },
		"tmpfs and bind at one":    func(s *Spec) { s.Tmpfs[1].Destination = "/usr" },
		"unlimited tmpfs":          func(s *Spec) { s.Tmpfs[1].SizeBytes = 0 },
		"no size of /dev/shm":      func(s *Spec) { s.Tmpfs = s.Tmpfs[1:] },
		"destination with a slash": func(s *Spec) { s.Binds[0].Destination = "/usr/" },
	} {
		s := valid()
		change(s)
		if err := s.Validate(); contract.CodeOf(err) != contract.Internal {
			t.Errorf("%s: got %v, want INTERNAL", name, err)
		}
	}
}

func TestHostIDs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		user     User
		rootless bool
		uid      uint32
	}{
		{"rootless", User{OwnerUID: 2001, Idmap: true, Base: 5}, true, 2001},
		{"rootful, mapped by hand", User{OwnerUID: 2001, Base: 65536}, false, 2001},
		{"rootful, idmapped", User{OwnerUID: 0, Idmap: true, Base: 65536}, false, 66536},
		{"rootful, idmapped, root", User{OwnerUID: 0, Idmap: true, Base: 65536, Root: true}, false, 65536},
	} {
		if uid, _ := tt.user.HostIDs(tt.rootless); uid != tt.uid {
			t.Errorf("%s: got %d, want %d", tt.name, uid, tt.uid)
		}
	}
}

func TestLabels(t *testing.T) {
	s := valid()
	if _, ok := s.Labels()[LabelBase]; ok {
		t.Error("a session without a range has the label of one")
	}
	s.User.Base = 65536
	if got := s.Labels(); got[LabelBase] != "65536" || got[LabelSession] != "s-1" || s.Name() != "realm-s-1" {
		t.Errorf("got %v, %s", got, s.Name())
	}
}
