package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"realm.dev/container"
	"realm.dev/contract"
)

// maxCopy bounds a file that is copied from the host's /etc.
const maxCopy = 4 << 20

// The session's own account files: programs see themselves, root and nobody.
var accounts = map[string]string{
	"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n" +
		"agent:x:1000:1000:agent:/home/agent:/bin/sh\n" +
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"etc/group": "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n",
	"etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n" +
		"protocols: files\nservices: files\nethers: files\nrpc: files\n",
}

// Skeleton makes dir, the root file system of s: the accounts, the links and
// every mount point. The engine's runtime cannot make mount points itself when
// the directory's owner is not in its user namespace.
func Skeleton(dir string, s *container.Spec) error {
	if err := skeleton(dir, "/", s); err != nil {
		return contract.Errorf(contract.Internal, "the root file system could not be made").WithCause(err)
	}
	return nil
}

func skeleton(dir, host string, s *container.Spec) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, step := range []func(*os.Root, string) error{makeDirs, makeLinks, copyFiles} {
		if err := step(root, host); err != nil {
			return err
		}
	}
	for name, text := range accounts {
		if err := writeFile(root, name, []byte(text)); err != nil {
			return err
		}
	}
	return makeMountPoints(root, s)
}

func makeDirs(root *os.Root, _ string) error {
	for _, name := range []string{"dev", "etc", "home", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var/tmp", ".realm"} {
		if err := makeDir(root, name); err != nil {
			return err
		}
	}
	return nil
}

// makeLinks makes the links that the host has at the same places.
func makeLinks(root *os.Root, host string) error {
	for _, name := range topLevel {
		if err := copyLink(root, host, name); err != nil {
			return err
		}
	}
	for _, pattern := range slices.Concat(etcLinks, etcDirs) {
		found, err := filepath.Glob(filepath.Join(host, pattern))
		if err != nil {
			return err
		}
		for _, p := range found {
			if err := copyLink(root, host, strings.TrimPrefix(inside(host, p), "/")); err != nil {
				return err
			}
		}
	}
	return root.Symlink("../proc/self/mounts", "etc/mtab")
}

// copyLink makes the link name as the host has it; what is no link is left out.
func copyLink(root *os.Root, host, name string) error {
	target, err := os.Readlink(filepath.Join(host, name))
	if err != nil {
		return nil
	}
	if err := makeDir(root, path.Dir(name)); err != nil {
		return err
	}
	return root.Symlink(target, name)
}

// copyFiles copies what of the host's etcFiles everybody may read.
func copyFiles(root *os.Root, host string) error {
	for _, name := range etcFiles {
		info, err := os.Stat(filepath.Join(host, name))
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxCopy || info.Mode().Perm()&0o004 == 0 {
			continue
		}
		data, err := os.ReadFile(filepath.Join(host, name))
		if err != nil {
			return err
		}
		if err := makeDir(root, path.Dir(name)); err != nil {
			return err
		}
		if err := writeFile(root, name, data); err != nil {
			return err
		}
	}
	return nil
}

// makeMountPoints makes what the mounts of s are mounted on, a file or a
// directory as the source is. What lies below another mount is there already, in
// that mount's source or on a memory file system where the runtime makes it.
func makeMountPoints(root *os.Root, s *container.Spec) error {
	points := map[string]bool{container.InitPath: false, container.SocketDir: true} // is a directory
	for _, t := range s.Tmpfs {
		points[t.Destination] = true
	}
	for _, b := range append([]container.Bind{s.Workspace}, s.Binds...) {
		info, err := os.Stat(b.Source)
		if err != nil {
			return err
		}
		points[b.Destination] = info.IsDir()
	}
	for p, isDir := range points {
		if below(p, points) {
			continue
		}
		name := strings.TrimPrefix(p, "/")
		if isDir {
			if err := makeDir(root, name); err != nil {
				return err
			}
			continue
		}
		if err := makeDir(root, path.Dir(name)); err != nil {
			return err
		}
		if err := writeFile(root, name, nil); err != nil {
			return err
		}
	}
	return nil
}

func below(p string, points map[string]bool) bool {
	for p != "/" {
		p = path.Dir(p)
		if _, ok := points[p]; ok {
			return true
		}
	}
	return false
}

// makeDir makes name and its parents, open to all whatever our umask is. /tmp is
// not special: a memory file system covers it.
func makeDir(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := makeDir(root, path.Dir(name)); err != nil {
		return err
	}
	err := root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrExist) {
		info, statErr := root.Stat(name)
		if statErr != nil {
			return statErr
		}
		if !info.IsDir() {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	return root.Chmod(name, 0o755)
}

// writeFile makes or fills name, readable by all whatever our umask is. A mount
// point that has content already keeps it.
func writeFile(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
