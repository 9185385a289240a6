package rootfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"realm.dev/container"
	"realm.dev/contract"
)

// tree makes files below a directory: "name" a directory, "name=text" a file,
// "name>target" a link.
func tree(t *testing.T, entries ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range entries {
		var err error
		if name, target, ok := strings.Cut(e, ">"); ok {
			err = mkparent(dir, name)
			if err == nil {
				err = os.Symlink(target, filepath.Join(dir, name))
			}
		} else if name, text, ok := strings.Cut(e, "="); ok {
			err = mkparent(dir, name)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
			}
		} else {
			err = os.MkdirAll(filepath.Join(dir, e), 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mkparent(dir, name string) error {
	return os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)
}

// list returns what is below dir: directories with a slash, links with their target.
func list(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		name := strings.TrimPrefix(p, dir+"/")
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(p)
			out[name] = "-> " + target
			return err
		case d.IsDir():
			out[name] = "dir"
		default:
			data, err := os.ReadFile(p)
			out[name] = "file " + string(data)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func binds(t *testing.T, host string) map[string]bool {
	t.Helper()
	list, err := hostBinds(host)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, b := range list {
		if b.Write || b.Source != filepath.Join(host, b.Destination) {
			t.Errorf("%+v is writable, or from elsewhere", b)
		}
		out[b.Destination] = b.Exec
	}
	return out
}

func TestHostBinds(t *testing.T) {
	merged := tree(t, "usr/bin", "bin>usr/bin", "lib>usr/lib", "etc/ssl/certs", "etc/ssl/private", "etc/java-17-openjdk", "home/u/.ssh")
	want := map[string]bool{"/usr": true, "/etc/ssl/certs": false, "/etc/java-17-openjdk": false}
	if diff := cmp.Diff(want, binds(t, merged)); diff != "" {
		t.Errorf("merged usr (-want +got):\n%s", diff)
	}
	split := tree(t, "usr/bin", "bin", "lib", "lib64", "etc/pki/tls/certs", "etc/ssl/certs>../pki/tls/certs")
	want = map[string]bool{"/usr": true, "/bin": true, "/lib": true, "/lib64": true, "/etc/pki/tls/certs": false}
	if diff := cmp.Diff(want, binds(t, split)); diff != "" {
		t.Errorf("split usr (-want +got):\n%s", diff)
	}
	private := tree(t, "usr", "etc/ssl/certs")
	if err := os.Chmod(filepath.Join(private, "etc/ssl/certs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]bool{"/usr": true}, binds(t, private)); diff != "" {
		t.Errorf("a directory that is not public (-want +got):\n%s", diff)
	}
}

func TestHostBindsOfThisMachine(t *testing.T) {
	got, err := HostBinds()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range got {
		for _, secret := range []string{"/home", "/root", "/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/run", "/var"} {
			if b.Destination == secret || strings.HasPrefix(secret, b.Destination+"/") {
				t.Errorf("%s is shown", secret)
			}
		}
	}
}

func TestSkeleton(t *testing.T) {
	host := tree(t, "usr/bin", "bin>usr/bin", "sbin", "lib64>/usr/lib64", "etc/ssl/certs>../pki/tls/certs", "etc/localtime>/usr/share/zoneinfo/UTC",
		"etc/services=ssh 22/tcp\n", "etc/shadow=secret", "etc/passwd=u:x:1000:1000::/home/u:/bin/sh\n", "etc/ld.so.cache=cache")
	sources := tree(t, "dir", "file=x")
	src := func(name string) string { return filepath.Join(sources, name) }
	spec := &container.Spec{
		Workspace: container.Bind{Source: src("dir"), Destination: "/srv/my project/app"},
		Binds: []container.Bind{
			{Source: src("dir"), Destination: "/usr"},
			{Source: src("dir"), Destination: "/usr/local/go"},
			{Source: src("dir"), Destination: "/sbin"},
			{Source: src("file"), Destination: "/etc/hosts"},
			{Source: src("file"), Destination: "/etc/services"},
			{Source: src("file"), Destination: "/srv/my project/app/.env"},
		},
		Tmpfs: []container.Tmpfs{{Destination: "/tmp"}, {Destination: "/var/tmp"}, {Destination: "/home/agent"}},
	}
	// The umask of the caller must not make the root unreadable.
	defer syscall.Umask(syscall.Umask(0o077))
	dir := filepath.Join(t.TempDir(), "root")
	if err := skeleton(dir, host, spec); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		".realm": "dir", ".realm/init": "file ", ".realm/link": "dir",
		"bin": "-> usr/bin", "lib64": "-> /usr/lib64", "sbin": "dir",
		"dev": "dir", "etc": "dir", "home": "dir", "home/agent": "dir", "opt": "dir", "proc": "dir", "root": "dir", "run": "dir",
		"srv": "dir", "srv/my project": "dir", "srv/my project/app": "dir",
		"sys": "dir", "tmp": "dir", "usr": "dir", "var": "dir", "var/tmp": "dir",
		"etc/group": "file " + accounts["etc/group"], "etc/passwd": "file " + accounts["etc/passwd"],
		"etc/nsswitch.conf": "file " + accounts["etc/nsswitch.conf"],
		"etc/hosts":         "file ", "etc/services": "file ssh 22/tcp\n", "etc/ld.so.cache": "file cache",
		"etc/localtime": "-> /usr/share/zoneinfo/UTC", "etc/mtab": "-> ../proc/self/mounts",
		"etc/ssl": "dir", "etc/ssl/certs": "-> ../pki/tls/certs",
	}
	if diff := cmp.Diff(want, list(t, dir)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	checkReadable(t, dir)
	if err := skeleton(dir, host, spec); err == nil {
		t.Error("a directory that exists was taken")
	}
}

func checkReadable(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o044 != 0o044 {
			t.Errorf("%s has the mode %v", p, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSkeletonErrors(t *testing.T) {
	file := filepath.Join(tree(t, "file=x"), "file")
	spec := &container.Spec{Workspace: container.Bind{Source: file, Destination: "/etc/passwd/below"}}
	for name, s := range map[string]*container.Spec{
		"a mount point below a file": spec,
		"a source that is not there": {Workspace: container.Bind{Source: file + "-absent", Destination: "/ws"}},
	} {
		err := Skeleton(filepath.Join(t.TempDir(), "root"), s)
		if contract.CodeOf(err) != contract.Internal {
			t.Errorf("%s: got %v, want INTERNAL", name, err)
		}
	}
}
