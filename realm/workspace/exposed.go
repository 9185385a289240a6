package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Between the moment a mount is lost and the moment it is back, a program
// inside can open what it protects and keep it open. The functions here look
// for what is left of that.

// content is a digest of a regular file, nil for everything else. One that is
// larger than any configuration counts by its size and time of change.
func content(dir *os.File, base string, st *unix.Stat_t) []byte {
	if !isRegular(st) {
		return nil
	}
	f, err := openAt(dir, base, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, 16<<20)); err != nil {
		return nil
	}
	return h.Sum(nil)
}

// letGo is how long a program that had a name open when it lost its mount may
// take to close it: git reads its configuration in a millisecond.
const letGo = 2 * time.Second

// stillExposed waits a moment for what the session holds open to be closed, and
// reports whether it may still write to what is at name.
func (p *Plan) stillExposed(ctx context.Context, pid int, name string, dir *os.File, base string, st *unix.Stat_t) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(letGo); p.exposed(pid, name, dir, base, st); {
		if time.Now().After(deadline) {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return true
		}
	}
	return false
}

// exposed reports whether a program may still write to what is at name, which
// is covered again: a file that somebody has open for writing or that has a
// second name, or a process inside that holds it, or something in it, through
// another mount than the cover.
func (p *Plan) exposed(pid int, name string, dir *os.File, base string, st *unix.Stat_t) bool {
	if isRegular(st) && (st.Nlink > 1 || openForWriting(dir, base)) {
		return true
	}
	all, err := mountsOf(pid)
	if err != nil {
		return true
	}
	cover, ok := visibleMount(all, name)
	return !ok || p.heldThroughOther(pid, cover.id, name)
}

// openForWriting asks the kernel by a read lease, which it grants only while
// nobody has the file open for writing. Where leases do not exist the answer is no.
func openForWriting(dir *os.File, base string) bool {
	f, err := openAt(dir, base, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if err == nil {
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	return err == unix.EAGAIN
}

// heldThroughOther looks at every process of the container for a descriptor,
// working directory or root at or below name that is not on the mount cover.
func (p *Plan) heldThroughOther(pid, cover int, name string) bool {
	ns, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/pid")
	if err != nil {
		return true
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return true
	}
	for _, proc := range procs {
		if _, err := strconv.Atoi(proc.Name()); err != nil {
			continue
		}
		dir := filepath.Join("/proc", proc.Name())
		if got, err := os.Readlink(filepath.Join(dir, "ns/pid")); err != nil || got != ns {
			continue
		}
		links, err := held(dir)
		if err != nil && !p.supervisor(pid, dir) {
			return true // one that cannot be looked at may hold anything
		}
		for _, link := range links {
			target, err := os.Readlink(link)
			if err == nil && contains(name, target) && mountID(link) != cover {
				return true
			}
		}
	}
	return false
}

// supervisor reports whether a process that this user may not look at is PID 1
// or one of its helpers: those have ids of their own, and they are not dumpable.
func (p *Plan) supervisor(pid int, proc string) bool {
	of := realUID(proc)
	return !p.RootPrograms && of != "" && of == realUID("/proc/"+strconv.Itoa(pid))
}

// realUID is the real uid of a process as its status shows it to everybody.
func realUID(proc string) string {
	b, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Uid:" {
			return f[1]
		}
	}
	return ""
}

func held(proc string) ([]string, error) {
	links := []string{filepath.Join(proc, "cwd"), filepath.Join(proc, "root")}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		// One that has ended, and that nobody has waited for yet, has no directory either.
		if _, cwd := os.Readlink(links[0]); errors.Is(cwd, fs.ErrNotExist) || errors.Is(cwd, unix.ESRCH) {
			return nil, nil
		}
	}
	for _, fd := range fds {
		links = append(links, filepath.Join(proc, "fd", fd.Name()))
	}
	return links, err
}

func mountID(link string) int {
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, link, 0, unix.STATX_MNT_ID, &st) != nil {
		return -1
	}
	return int(st.Mnt_id)
}
