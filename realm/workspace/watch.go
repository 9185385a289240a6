package workspace

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Lost says that something happened on the host to a name that a mount lies
// on: a rename over it or a removal takes the mount away inside.
type Lost struct {
	Mount Mount `json:"mount"`
}

const watchMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ONLYDIR | unix.IN_DONT_FOLLOW

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
	w := &watcher{
		file: os.NewFile(uintptr(fd), "inotify"), fd: fd,
		names: map[string]map[string]int{}, byDir: map[string]int{}, byWatch: map[int]string{},
		mounts: p.Mounts, pending: map[int]bool{}, wake: make(chan struct{}, 1),
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
	context.AfterFunc(ctx, func() { w.file.Close() })
	return out, nil
}

// watcher is one inotify instance.
type watcher struct {
	file    *os.File
	fd      int
	names   map[string]map[string]int // directory → name → index of mounts
	byDir   map[string]int            // directory → watch descriptor
	byWatch map[int]string
	mounts  []Mount

	wake    chan struct{}
	mu      sync.Mutex
	pending map[int]bool
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

func (w *watcher) read() {
	defer close(w.wake)
	buf := make([]byte, 64<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		hit := false
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int(int32(binary.NativeEndian.Uint32(b)))
			mask := binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
			name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
			b = b[end:]
			hit = w.event(wd, mask, name) || hit
		}
		if hit {
			// A directory that could not be watched again has lost its mounts as well, and they are reported already.
			_ = w.rewatch()
			select {
			case w.wake <- struct{}{}:
			default:
			}
		}
	}
}

// event marks what is lost and reports whether anything is.
func (w *watcher) event(wd int, mask uint32, name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mask&unix.IN_Q_OVERFLOW != 0 {
		for _, names := range w.names {
			for _, i := range names {
				w.pending[i] = true
			}
		}
		return true
	}
	i, ok := w.names[w.byWatch[wd]][name]
	if ok {
		w.pending[i] = true
	}
	return ok
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
			case out <- Lost{Mount: w.mounts[i]}:
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
