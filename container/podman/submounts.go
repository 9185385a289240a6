package podman

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"realm.dev/container"
	"realm.dev/container/idmap"
	"realm.dev/contract"
)

// maxSubmounts bounds the file systems that may be mounted below what a session
// is shown.
const maxSubmounts = 64

// shown are the types of file system whose mounts below a workspace belong to
// it. All others are covered: a proc, sysfs or devtmpfs of the host's, as they
// lie in a build root, is a way out.
var shown = []string{
	"9p", "bcachefs", "btrfs", "ceph", "cifs", "ecryptfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "fuse", "fuseblk",
	"iso9660", "jfs", "nfs", "nfs4", "ntfs3", "overlay", "reiserfs", "smb3", "squashfs", "tmpfs", "vfat", "virtiofs", "xfs", "zfs",
}

// host is what withSubmounts asks the machine.
type host struct {
	mounts []*mountinfo.Info
	isDir  func(path string) bool
	idmaps func(path string) bool
}

// withSubmounts adds to a spec what is mounted on the host below the sources of
// its binds. A rootless runtime cannot leave that behind when it binds a
// directory, and would show it writable whatever the bind is; so each such mount
// gets a bind of its own with its parent's options, or a cover.
func withSubmounts(s *container.Spec, f *facts, log *slog.Logger) (*container.Spec, error) {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, contract.Errorf(contract.Internal, "the host's mounts could not be read").WithCause(err)
	}
	h := host{
		mounts: mounts,
		isDir: func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && info.IsDir()
		},
		idmaps: func(path string) bool {
			if f.Rootless || !s.User.Idmap {
				return true
			}
			ok, err := idmap.Supported(path)
			return err == nil && ok
		},
	}
	return addSubmounts(s, h, log)
}

func addSubmounts(s *container.Spec, h host, log *slog.Logger) (*container.Spec, error) {
	out := *s
	out.Binds, out.Tmpfs = slices.Clone(s.Binds), slices.Clone(s.Tmpfs)
	given := destinations(s)
	added := map[string]bool{}
	for _, b := range append([]container.Bind{s.Workspace}, s.Binds...) {
		for _, m := range h.mounts {
			rel, ok := strings.CutPrefix(m.Mountpoint, strings.TrimSuffix(b.Source, "/")+"/")
			dest := filepath.Join(b.Destination, rel)
			if !ok || added[dest] || covered(dest, b.Destination, given) {
				continue
			}
			added[dest] = true
			if len(added) > maxSubmounts {
				return nil, contract.Errorf(contract.LimitExceeded, "more than %d file systems are mounted below the session's directories", maxSubmounts)
			}
			sub := b
			sub.Source, sub.Destination, sub.Role = m.Mountpoint, dest, "submount"
			known := slices.Contains(shown, m.FSType) || strings.HasPrefix(m.FSType, "fuse.")
			switch isDir := h.isDir(m.Mountpoint); {
			case known && (!b.Owned || h.idmaps(m.Mountpoint)):
				out.Binds = append(out.Binds, sub)
			case isDir:
				log.Warn("a file system mounted below the session's directories is covered", "type", m.FSType, "role", b.Role)
				out.Tmpfs = append(out.Tmpfs, container.Tmpfs{Destination: dest, SizeBytes: 4096, Mode: 0o555, NoExec: true})
			default:
				sub.Write, sub.Owned = false, false
				out.Binds = append(out.Binds, sub)
			}
		}
	}
	return &out, nil
}

// destinations are all places where s mounts something.
func destinations(s *container.Spec) []string {
	list := []string{container.InitPath, container.SocketDir, s.Workspace.Destination}
	for _, b := range s.Binds {
		list = append(list, b.Destination)
	}
	for _, t := range s.Tmpfs {
		list = append(list, t.Destination)
	}
	return list
}

// covered says whether dest, below base, is hidden by or is itself another
// mount of the spec.
func covered(dest, base string, given []string) bool {
	for _, d := range given {
		if strings.HasPrefix(d, base+"/") && (dest == d || strings.HasPrefix(dest, d+"/")) {
			return true
		}
	}
	return false
}
