package control

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"realm.dev/contract"
	"realm.dev/realm/control/controltest"
)

// connectEnv makes the test binary a client of the socket that it names.
const connectEnv = "REALM_TEST_CONNECT"

func TestMain(m *testing.M) {
	if path := os.Getenv(connectEnv); path != "" {
		os.Exit(connectAndReport(path))
	}
	os.Exit(m.Run())
}

// connectAndReport asks for the record and prints what came back, and nothing
// when the connection ended before an answer.
func connectAndReport(path string) int {
	c, err := net.Dial("unix", path)
	if err != nil {
		fmt.Println("dial:", err)
		return 1
	}
	fmt.Fprint(c, "GET /v1/record HTTP/1.1\r\nHost: realm\r\n\r\n")
	b, _ := io.ReadAll(c)
	fmt.Printf("read %d bytes\n", len(b))
	return 0
}

// socketDir returns a private directory whose path has no link in it and is
// short enough for a socket.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func mustListen(t *testing.T, path string) *Listener {
	t.Helper()
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func wantCode(t *testing.T, err error, want contract.Code) {
	t.Helper()
	if got := contract.CodeOf(err); got != want {
		t.Errorf("got code %q (%v), want %q", got, err, want)
	}
}

// SOCK-02: nobody ever sees the sockets wider than 0600 or the directory
// wider than 0700, even with a umask that takes nothing away.
func TestModesDuringThousandStarts(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := filepath.Join(socketDir(t), "local")

	stop := make(chan struct{})
	var watchers, starters sync.WaitGroup
	var seen sync.Map
	for range 2 {
		watchers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				watchModes(t, dir, &seen)
			}
		})
	}
	for worker := range 4 {
		starters.Go(func() {
			for i := range 250 {
				l, err := Listen(filepath.Join(dir, fmt.Sprintf("%d-%d.sock", worker, i)))
				if err != nil {
					t.Error(err)
					return
				}
				l.Close()
			}
		})
	}
	starters.Wait()
	close(stop)
	watchers.Wait()
	count := 0
	seen.Range(func(any, any) bool { count++; return true })
	if count == 0 {
		t.Error("the watchers saw no socket, so nothing was tested")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func watchModes(t *testing.T, dir string, seen *sync.Map) {
	info, err := os.Lstat(dir)
	if err != nil {
		return // not there yet
	}
	if info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("directory: mode %v", info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // gone again
		}
		seen.Store(e.Name(), true)
		if info.Mode() != fs.ModeSocket|0o600 {
			t.Errorf("%s: mode %v", e.Name(), info.Mode())
		}
	}
}

// SOCK-01: another uid gets no byte, even where the file modes would let it in.
func TestOtherUserIsClosedBeforeHTTP(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user")
	}
	dir := socketDir(t)
	path := filepath.Join(dir, "s.sock")
	srv := Serve(mustListen(t, path), controltest.New(contract.Ready), Options{})
	defer closeServer(t, srv)
	for path, mode := range map[string]fs.FileMode{dir: 0o755, path: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	binary := copyTestBinary(t, dir)
	for _, tt := range []struct {
		uid  uint32
		want string
	}{{65534, "read 0 bytes"}, {0, "read "}} {
		cmd := exec.Command(binary)
		cmd.Dir = "/"
		cmd.Env = []string{connectEnv + "=" + path}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: tt.uid, Gid: tt.uid}}
		out, err := cmd.CombinedOutput()
		got := strings.TrimSpace(string(out))
		if err != nil || !strings.HasPrefix(got, tt.want) || (tt.uid == 0) == (got == "read 0 bytes") {
			t.Errorf("uid %d: got %q, %v, want %q", tt.uid, got, err, tt.want)
		}
	}
}

func copyTestBinary(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "client")
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// SOCK-03: whatever was there before is refused and stays, but for a dead
// socket of ours.
func TestListenOverWhatIsThere(t *testing.T) {
	tests := map[string]struct {
		make    func(t *testing.T, path string)
		want    contract.Code
		replace bool
	}{
		"file":      {make: func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, want: contract.PathRefused},
		"directory": {make: func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, want: contract.PathRefused},
		"dangling":  {make: func(t *testing.T, path string) { must(t, os.Symlink(path+".not", path)) }, want: contract.PathRefused},
		"link to dead socket": {make: func(t *testing.T, path string) {
			deadSocket(t, path+".dead")
			must(t, os.Symlink(path+".dead", path))
		}, want: contract.PathRefused},
		"fifo":        {make: func(t *testing.T, path string) { must(t, syscall.Mkfifo(path, 0o600)) }, want: contract.PathRefused},
		"datagram":    {make: datagramSocket, want: contract.SessionState},
		"live socket": {make: liveSocket, want: contract.SessionState},
		"dead socket": {make: deadSocket, replace: true},
		"dead socket of another user": {make: func(t *testing.T, path string) {
			needRoot(t)
			deadSocket(t, path)
			must(t, os.Lchown(path, 65534, 65534))
		}, want: contract.PathRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(socketDir(t), "s.sock")
			tt.make(t, path)
			before, err := os.Lstat(path)
			must(t, err)
			l, err := Listen(path)
			if tt.replace {
				must(t, err)
				must(t, l.Close())
				return
			}
			wantCode(t, err, tt.want)
			removed, err := RemoveStale(path)
			wantCode(t, err, tt.want)
			after, statErr := os.Lstat(path)
			if removed || statErr != nil || !os.SameFile(before, after) {
				t.Errorf("it was touched: removed %v, %v", removed, statErr)
			}
		})
	}
}

// SOCK-03, SOCK-04: directories and names in which a socket is not made.
func TestListenRefusesPlaces(t *testing.T) {
	tests := map[string]struct {
		path func(t *testing.T, dir string) string
		want contract.Code
	}{
		"open directory": {func(t *testing.T, dir string) string {
			must(t, os.Chmod(dir, 0o755))
			return dir + "/s.sock"
		}, contract.PathRefused},
		"directory of another user": {func(t *testing.T, dir string) string {
			needRoot(t)
			must(t, os.Mkdir(dir+"/d", 0o700))
			must(t, os.Chown(dir+"/d", 65534, 65534))
			return dir + "/d/s.sock"
		}, contract.PathRefused},
		"below a directory of another user": {func(t *testing.T, dir string) string {
			needRoot(t)
			must(t, os.MkdirAll(dir+"/d/e", 0o700))
			must(t, os.Chown(dir+"/d", 65534, 65534))
			return dir + "/d/e/s.sock"
		}, contract.PathRefused},
		"below a directory that all can change": {func(t *testing.T, dir string) string {
			must(t, os.MkdirAll(dir+"/d/e", 0o700))
			must(t, os.Chmod(dir+"/d", 0o777))
			return dir + "/d/e/s.sock"
		}, contract.PathRefused},
		"directory is a link": {func(t *testing.T, dir string) string {
			must(t, os.Mkdir(dir+"/d", 0o700))
			must(t, os.Symlink("d", dir+"/e"))
			return dir + "/e/s.sock"
		}, contract.PathRefused},
		"below a link": {func(t *testing.T, dir string) string {
			must(t, os.MkdirAll(dir+"/d/f", 0o700))
			must(t, os.Symlink("d", dir+"/e"))
			return dir + "/e/f/s.sock"
		}, contract.PathRefused},
		"no parent": {func(_ *testing.T, dir string) string { return dir + "/x/y/s.sock" }, contract.PathRefused},
		"too long": {func(_ *testing.T, dir string) string {
			return dir + "/" + strings.Repeat("a", contract.MaxSocketPath-len(dir))
		}, contract.LimitExceeded},
		"abstract":        {func(*testing.T, string) string { return "@realm" }, contract.PathRefused},
		"abstract by NUL": {func(*testing.T, string) string { return "\x00realm" }, contract.PathRefused},
		"NUL inside":      {func(_ *testing.T, dir string) string { return dir + "/a\x00b" }, contract.PathRefused},
		"relative":        {func(*testing.T, string) string { return "s.sock" }, contract.PathRefused},
		"not clean":       {func(_ *testing.T, dir string) string { return dir + "/../s.sock" }, contract.PathRefused},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := tt.path(t, socketDir(t))
			l, err := Listen(path)
			wantCode(t, err, tt.want)
			if l != nil {
				l.Close()
			}
		})
	}
}

func TestLongestPath(t *testing.T) {
	dir := socketDir(t)
	path := dir + "/" + strings.Repeat("a", contract.MaxSocketPath-len(dir)-1)
	mustListen(t, path)
	c, err := net.Dial("unix", path)
	must(t, err)
	c.Close()
}

// A socket that somebody put in the place of ours stays when ours closes.
func TestCloseLeavesTheSocketOfAnother(t *testing.T) {
	path := filepath.Join(socketDir(t), "s.sock")
	l := mustListen(t, path)
	must(t, os.Remove(path))
	other := mustListen(t, path)
	must(t, l.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the other socket is gone: %v", err)
	}
	must(t, other.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
}

// Of many that replace one dead socket at once, one wins and stays.
func TestOneListenerWinsADeadSocket(t *testing.T) {
	for range 50 {
		path := filepath.Join(socketDir(t), "s.sock")
		deadSocket(t, path)
		won := make(chan *Listener, 8)
		var wg sync.WaitGroup
		for range cap(won) {
			wg.Go(func() {
				l, err := Listen(path)
				if err == nil {
					won <- l
					return
				}
				wantCode(t, err, contract.SessionState)
			})
		}
		wg.Wait()
		close(won)
		if len(won) != 1 {
			t.Fatalf("%d listeners on one path", len(won))
		}
		must(t, (<-won).Close())
	}
}

func TestRemoveStale(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "s.sock")
	for _, want := range []bool{false, true, false} {
		if want {
			deadSocket(t, path)
		}
		got, err := RemoveStale(path)
		if err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	got, err := RemoveStale(dir + "/none/s.sock")
	if err != nil || got {
		t.Errorf("without a directory: got %v, %v", got, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a file of another user")
	}
}

func liveSocket(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
}

func deadSocket(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, l.Close())
}

func datagramSocket(t *testing.T, path string) {
	c, err := net.ListenPacket("unixgram", path)
	must(t, err)
	t.Cleanup(func() { c.Close() })
}
