package workspace

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Lost says that something happened on the host to a name that a mount lies
// on: a rename over it or a removal takes the mount away inside. One that is
// made by hand, from Verify, needs the Destination only.
type Lost struct {
	Mount Mount
	watch *watcher
}

const (
	// What takes a mount away, or puts something in its place.
	watchMoves = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO
	// What happens to a file meanwhile.
	watchWrites = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_CLOSE_WRITE
	watchMask   = watchMoves | watchWrites | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW
)

// Watch reports what happens to the names of the plan's mounts until ctx ends;
// the channel is closed then. Start it before the container. A program inside
// can cause no such event, for it cannot rename or remove a mount point, but
// it can cause many others: they are dropped, and when the kernel drops some itself,
// every mount is reported. Events of one name that nobody took yet are one.
func (p *Plan) Watch(ctx context.Context) (<-chan Lost, error) {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, ioError(err, "the workspace could not be watched")
	}
	w := newWatcher(p, fd)
	if err := w.rewatch(); err != nil {
		w.file.Close()
		return nil, err
	}
	out := make(chan Lost)
	var wg sync.WaitGroup
	wg.Go(w.read)
	wg.Go(func() { w.deliver(ctx, out) })
	go func() {
		wg.Wait()
		close(out)
	}()
	context.AfterFunc(ctx, w.close)
	return out, nil
}

// watcher is one inotify instance.
type watcher struct {
	file   *os.File
	mounts []Mount
	names  map[string]map[string]int // directory → name → index of mounts
	wake   chan struct{}

	mu      sync.Mutex
	fd      int // -1 when closed
	buf     []byte
	byDir   map[string]int // directory → watch descriptor
	byWatch map[int]string
	pending map[int]bool
	// exposed are the mounts that an event took away since they were last put
	// in force; true when there is more to it than one rename by the host, which
	// brings a whole file: then a program inside may have had its hand in it.
	exposed map[int]bool
}

func newWatcher(p *Plan, fd int) *watcher {
	w := &watcher{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd, buf: make([]byte, 64<<10), mounts: p.Mounts,
		names: map[string]map[string]int{}, byDir: map[string]int{}, byWatch: map[int]string{},
		pending: map[int]bool{}, exposed: map[int]bool{}, wake: make(chan struct{}, 1),
	}
	for i, m := range p.Mounts {
		if p.atRisk(&m) {
			dir, name := filepath.Split(m.Destination)
			dir = filepath.Clean(dir)
			if w.names[dir] == nil {
				w.names[dir] = map[string]int{}
			}
			w.names[dir][name] = i
		}
	}
	return w
}

// rewatch watches every directory that holds a name. A directory that was
// replaced gets a new watch; one that is missing is watched when it is back,
// for its own name is watched in the directory above it, or it holds nothing any more.
func (w *watcher) rewatch() error {
	for dir := range w.names {
		wd, err := unix.InotifyAddWatch(w.fd, dir, watchMask)
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.ELOOP {
			continue
		}
		if err != nil {
			return ioError(err, "the workspace could not be watched")
		}
		if old, ok := w.byDir[dir]; ok && old != wd {
			_, _ = unix.InotifyRmWatch(w.fd, uint32(old))
			delete(w.byWatch, old)
		}
		w.byDir[dir], w.byWatch[wd] = wd, dir
	}
	return nil
}

// read takes events whenever there are some, until the file is closed.
func (w *watcher) read() {
	defer close(w.wake)
	conn, err := w.file.SyscallConn()
	for err == nil {
		flood := false
		err = conn.Read(func(uintptr) bool {
			more := false
			more, flood = w.drain()
			return more
		})
		if err == nil && flood {
			// Events that mean nothing cost the host no more than this.
			time.Sleep(time.Millisecond)
		}
	}
}

// close ends read. The number is forgotten first: another file may get it.
func (w *watcher) close() {
	w.mu.Lock()
	w.fd = -1
	w.mu.Unlock()
	w.file.Close()
}

// drain takes all events that the kernel has queued. more is false when there was none.
func (w *watcher) drain() (more, flood bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hit := false
	for w.fd >= 0 {
		n, err := unix.Read(w.fd, w.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		more = true
		hit = w.eventsLocked(w.buf[:n]) || hit
		if flood = n > len(w.buf)/2; flood {
			break
		}
	}
	if hit {
		// A directory that cannot be watched again has lost its mounts as well,
		// and they are reported already.
		_ = w.rewatch()
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return more, flood
}

func (w *watcher) eventsLocked(b []byte) bool {
	hit := false
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int(int32(binary.NativeEndian.Uint32(b)))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
		b = b[end:]
		hit = w.eventLocked(wd, mask, name) || hit
	}
	return hit
}

// eventLocked reports whether the event can have taken a mount away.
func (w *watcher) eventLocked(wd int, mask uint32, name string) bool {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, names := range w.names {
			for _, i := range names {
				w.pending[i], w.exposed[i] = true, true
			}
		}
		return true
	}
	i, ok := w.names[w.byWatch[wd]][name]
	if !ok {
		return false
	}
	_, exposed := w.exposed[i]
	if mask&watchMoves == 0 {
		if exposed {
			w.exposed[i] = true
		}
		return false
	}
	w.pending[i] = true
	w.exposed[i] = exposed || mask&unix.IN_MOVED_TO == 0
	return true
}

// settle says, when a mount is in force again, whether a program inside may
// have had its hand in what it covers now.
func (w *watcher) settle(destination string) (doubt bool) {
	if w == nil {
		return true
	}
	w.drain()
	w.mu.Lock()
	defer w.mu.Unlock()
	dir, name := filepath.Split(destination)
	i, ok := w.names[filepath.Clean(dir)][name]
	more, exposed := w.exposed[i]
	delete(w.exposed, i)
	return !ok || !exposed || more
}

// deliver hands out what is pending, outer mounts first.
func (w *watcher) deliver(ctx context.Context, out chan<- Lost) {
	for range w.wake {
		for {
			i, ok := w.take()
			if !ok {
				break
			}
			select {
			case out <- Lost{Mount: w.mounts[i], watch: w}:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (w *watcher) take() (int, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := -1
	for i := range w.pending {
		if least < 0 || i < least {
			least = i
		}
	}
	delete(w.pending, least)
	return least, least >= 0
}
