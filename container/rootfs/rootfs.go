// Package rootfs makes the root of a session that runs on this machine's own
// programs (image: host): a small directory of ours with the host's /usr mounted
// into it, and nothing of /home, /root or what in /etc is secret.
package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"realm.dev/container"
	"realm.dev/contract"
)

// topLevel are the directories that a merged-usr system has as links into /usr,
// and others as directories of their own.
var topLevel = []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// etcDirs are the directories of /etc that programs need, as patterns. All are
// public: trust anchors, chosen alternatives, settings of interpreters.
var etcDirs = []string{
	"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/fonts", "/etc/java-*",
	"/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/python3*", "/etc/ssl/certs",
}

// etcFiles are the small files of /etc that programs need; a session has its own
// copy of each.
var etcFiles = []string{
	"etc/ld.so.cache", "etc/mime.types", "etc/pki/tls/openssl.cnf", "etc/protocols", "etc/services", "etc/ssl/openssl.cnf",
}

// etcLinks are links of /etc that point into /usr.
var etcLinks = []string{"etc/localtime", "etc/os-release"}

// HostBinds lists the mounts of this machine's programs, for Spec.Binds.
func HostBinds() ([]container.Bind, error) { return hostBinds("/") }

func hostBinds(host string) ([]container.Bind, error) {
	binds := []container.Bind{bind(host, "/usr", "usr")}
	for _, name := range topLevel {
		info, err := os.Lstat(filepath.Join(host, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, unreadable(err)
		case info.IsDir():
			binds = append(binds, bind(host, "/"+name, "usr"))
		}
	}
	for _, pattern := range etcDirs {
		found, err := filepath.Glob(filepath.Join(host, pattern))
		if err != nil {
			return nil, unreadable(err)
		}
		for _, p := range found {
			// A link is made in the skeleton instead; what others may not
			// read is not for a session.
			if info, err := os.Lstat(p); err == nil && info.IsDir() && info.Mode().Perm()&0o005 == 0o005 {
				binds = append(binds, bind(host, inside(host, p), "etc"))
			}
		}
	}
	return binds, nil
}

func bind(host, p, role string) container.Bind {
	return container.Bind{Source: filepath.Join(host, p), Destination: p, Exec: role == "usr", Role: role}
}

// inside strips host from p.
func inside(host, p string) string { return path.Join("/", strings.TrimPrefix(p, host)) }

func unreadable(err error) error {
	return contract.Errorf(contract.Internal, "the host's system directories could not be read").WithCause(err)
}
