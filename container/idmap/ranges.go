package idmap

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"realm.dev/contract"
)

// Dir is where the ranges of this host are locked: one place for all realms,
// since all who run sessions rootful are the same user. It does not outlive a
// boot, and neither do sessions.
const Dir = "/run/realm/ids"

// Size is the number of ids in a range.
const Size = 1 << 16

// The span that ranges are cut from. systemd's table of user ids leaves 0x70000000
// to 0x7ffdffff unused: below are users, subordinate ids (from 100000) and
// systemd-nspawn, above are the ids of foreign file system images and those that
// programs with signed ids cannot hold. Directory services (SSSD, FreeIPA) map
// people to ids up to 2000200000, so the span begins after that. The range that
// /etc/subuid names for "containers" is not used: Podman hands out parts of it
// by itself (userns=auto) and would not know of ours.
const (
	spanFirst = 0x7740_0000
	spanLast  = 0x7ffd_ffff
)

// Range is a range of Size host ids, uids and gids alike. It is ours until
// Release, or until this process ends.
type Range struct {
	Base uint32
	lock *os.File
}

// Acquire takes the lowest range that nobody has: no other realm by the locks in
// dir, no user, group or subordinate range of the host's files, and no live
// session of a realm that has ended, which used tells (it may be nil).
func Acquire(dir string, used func(base uint32) bool) (*Range, error) {
	hosts, err := hostIDs("/etc")
	if err != nil {
		return nil, contract.Errorf(contract.Internal, "the host's id ranges could not be read").WithCause(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, contract.Errorf(contract.Internal, "the locks of id ranges could not be made").WithCause(err)
	}
	for base := uint64(spanFirst); base+Size-1 <= spanLast; base += Size {
		if overlaps(hosts, base) || used != nil && used(uint32(base)) {
			continue
		}
		r, err := Adopt(dir, uint32(base))
		if errors.Is(err, unix.EWOULDBLOCK) {
			continue
		}
		return r, err
	}
	return nil, contract.Errorf(contract.LimitExceeded, "no range of user ids is free")
}

// Adopt takes one range, for a session that is alive although its realm has
// ended. The error has the cause EWOULDBLOCK when another realm has it.
func Adopt(dir string, base uint32) (*Range, error) {
	lock, err := os.OpenFile(filepath.Join(dir, strconv.FormatUint(uint64(base), 10)), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err == nil {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			lock.Close()
		}
	}
	if err != nil {
		return nil, contract.Errorf(contract.Internal, "a range of user ids could not be locked").WithCause(err)
	}
	return &Range{Base: base, lock: lock}, nil
}

// Release gives the range back. The lock file stays: removing it would let two
// processes lock two files of one name.
func (r *Range) Release() error {
	if err := r.lock.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return contract.Errorf(contract.Internal, "a range of user ids could not be given back").WithCause(err)
	}
	return nil
}

// span is a range of ids in a file of the host, both ends included.
type span struct{ first, last uint64 }

func overlaps(taken []span, base uint64) bool {
	for _, s := range taken {
		if s.first <= base+Size-1 && base <= s.last {
			return true
		}
	}
	return false
}

// hostIDs reads which ids the host has given away. Entries that do not parse
// are not ids.
func hostIDs(etc string) ([]span, error) {
	var taken []span
	for _, name := range []string{"subuid", "subgid", "passwd", "group"} {
		f, err := os.Open(filepath.Join(etc, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		spans, err := parse(f, strings.HasPrefix(name, "sub"))
		f.Close()
		if err != nil {
			return nil, err
		}
		taken = append(taken, spans...)
	}
	return taken, nil
}

// parse reads one of the colon-separated files: subordinate files hold the first
// id and a count, the others one id.
func parse(r io.Reader, subordinate bool) ([]span, error) {
	var taken []span
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		id, count := fields[2], "1"
		if subordinate {
			id, count = fields[1], fields[2]
		}
		start, err1 := strconv.ParseUint(id, 10, 32)
		n, err2 := strconv.ParseUint(count, 10, 32)
		if err1 != nil || err2 != nil || n == 0 {
			continue
		}
		taken = append(taken, span{start, start + n - 1})
	}
	return taken, lines.Err()
}
