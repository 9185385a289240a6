package podman

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"realm.dev/container"
	"realm.dev/contract"
)

func TestAddSubmounts(t *testing.T) {
	spec := &container.Spec{
		Workspace: container.Bind{Source: "/home/u/w", Destination: "/home/u/w", Write: true, Exec: true, Owned: true, Role: "workspace"},
		Binds: []container.Bind{
			{Source: "/usr", Destination: "/usr", Exec: true, Role: "usr"},
			{Source: "/home/u/w/.git", Destination: "/home/u/w/.git", Owned: true, Role: "git"},
			{Source: "/state/empty", Destination: "/home/u/w/secret", Role: "hide"},
		},
		Tmpfs: []container.Tmpfs{{Destination: "/home/u/w/covered"}},
	}
	h := host{
		isDir:  func(path string) bool { return !strings.HasSuffix(path, ".file") },
		idmaps: func(path string) bool { return path != "/home/u/w/odd" },
	}
	for point, kind := range map[string]string{
		"/": "ext4", "/proc": "proc", "/usr/local/go": "ext4", "/usr-other": "ext4",
		"/home/u/w/data": "xfs", "/home/u/w/sshfs": "fuse.sshfs", "/home/u/w/root/proc": "proc", "/home/u/w/root/dev": "devtmpfs",
		"/home/u/w/tty.file": "devtmpfs", "/home/u/w/odd": "ext4", "/home/u/w/secret/x": "ext4", "/home/u/w/covered/x": "ext4",
		"/home/u/w/.git/objects": "ext4", "/home/u/w": "ext4", "/home/u/w/.git": "ext4",
	} {
		h.mounts = append(h.mounts, &mountinfo.Info{Mountpoint: point, FSType: kind})
	}
	full, err := addSubmounts(spec, h, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, b := range full.Binds[len(spec.Binds):] {
		kind := "ro"
		if b.Write {
			kind = "rw"
		}
		if b.Owned {
			kind += " owned"
		}
		if b.Source != b.Destination {
			t.Errorf("%+v", b)
		}
		got[b.Destination] = kind
	}
	for _, m := range full.Tmpfs[len(spec.Tmpfs):] {
		got[m.Destination] = "cover"
	}
	want := map[string]string{
		"/usr/local/go": "ro", "/home/u/w/data": "rw owned", "/home/u/w/sshfs": "rw owned",
		"/home/u/w/root/proc": "cover", "/home/u/w/root/dev": "cover", "/home/u/w/odd": "cover",
		"/home/u/w/tty.file": "ro", "/home/u/w/.git/objects": "ro owned",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(spec.Binds) != 3 || len(spec.Tmpfs) != 1 {
		t.Error("the caller's spec was changed")
	}
}

func TestTooManySubmounts(t *testing.T) {
	h := host{isDir: func(string) bool { return true }, idmaps: func(string) bool { return true }}
	for i := range maxSubmounts + 1 {
		h.mounts = append(h.mounts, &mountinfo.Info{Mountpoint: "/home/u/w/" + strings.Repeat("x", i+1), FSType: "ext4"})
	}
	_, err := addSubmounts(sample(), h, slog.New(slog.DiscardHandler))
	if contract.CodeOf(err) != contract.LimitExceeded {
		t.Errorf("got %v, want LIMIT_EXCEEDED", err)
	}
}

// TestSubmountsOfTheWorkspace mounts on the host below a workspace, and looks
// from inside.
func TestSubmountsOfTheWorkspace(t *testing.T) {
	e := open(t)
	if e.conn.rootless() {
		t.Skip("an ordinary user cannot mount; TestNothingOfTheHostIsWritable has the mounts that are there")
	}
	b := specOf(t, e)
	for name, kind := range map[string]string{"data": "tmpfs", "root/proc": "proc", "root/sys": "sysfs"} {
		dir := filepath.Join(b.Workspace.Source, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(kind, dir, kind, 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	}
	data := filepath.Join(b.Workspace.Source, "data")
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	b.start()
	if resp := b.guest.run("write", data+"/file", "x"); resp.Code != 0 {
		t.Errorf("a disk below the workspace: %+v", resp)
	}
	owned(t, b, data+"/file")
	for _, file := range []string{"root/proc/version", "root/sys/kernel/uevent_seqnum"} {
		if resp := b.guest.run("cat", filepath.Join(b.Workspace.Destination, file)); resp.Code == 0 {
			t.Errorf("%s of the host's is there", file)
		}
	}
}
