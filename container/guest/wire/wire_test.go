package wire

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// messages has one of each, with every field set.
func messages() []Message {
	limits := []Rlimit{{Resource: 7, Soft: 1, Hard: 1 << 40}}
	return []Message{
		&Hello{PID: 1, Resumed: true, OOMKnown: true, Calls: []string{"a", "b"}},
		&Welcome{OwnerGraceMillis: 60000},
		&Exec{Call: "c", Argv: []string{"sh", "-c", ""}, Env: []string{"A=b"}, Dir: "/", UID: 1000, GID: 1001, NoStdin: true, TTY: true, Rows: 24, Cols: 80, Rlimits: limits, Home: "/home/u"},
		&Started{PID: 17},
		&Exited{Outcome: OutcomeSignaled, Code: 1, Signal: 9, Phase: "exec", Errno: 2, UserMicros: 3, SysMicros: 4, MaxRSS: 5, Background: 6, OOMKnown: true, OOMKills: 7},
		&Idle{},
		&Signal{Call: "c", Signal: 15},
		&Kill{Call: "c"},
		&List{},
		&Processes{Processes: []ProcessInfo{{Call: "c", PID: 1, PPID: 2, UID: 3, State: 'S', Name: "n"}}, Truncated: true},
		&Probe{ProbeRequest{UID: 1, GID: 2, Env: []string{"A=b"}, Dir: "/", Home: "/h", Writable: []string{"/w"}, ReadOnly: []string{"/r"}, Rlimits: limits, MemoryBytes: 1, PidsMax: 2, CPUMicros: 3, CPUPeriod: 4, TCP: []string{"t"}, UDP: []string{"u"}, Names: []string{"n"}, HostSockets: []string{"/s"}, Waived: []string{"x"}}},
		&Report{Results: []ProbeResult{{Name: "n", OK: true, Waived: true, Detail: "d"}}},
		&Reset{},
		&Shutdown{},
		&Reply{Errno: 3},
	}
}

// TestRoundTrip also proves that every type has a message and every field of
// every message is coded.
func TestRoundTrip(t *testing.T) {
	seen := map[Type]bool{}
	for _, m := range messages() {
		seen[TypeOf(m)] = true
		for i, v := 0, reflect.ValueOf(m).Elem(); i < v.NumField(); i++ {
			if v.Field(i).IsZero() {
				t.Errorf("%T: the test leaves %s zero", m, v.Type().Field(i).Name)
			}
		}
		payload, err := Encode(m)
		if err != nil {
			t.Fatalf("%T: %v", m, err)
		}
		got, err := Decode(TypeOf(m), payload)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("%T: got %+v, %v", m, got, err)
		}
		for n := range payload {
			if _, err := Decode(TypeOf(m), payload[:n]); err == nil {
				t.Errorf("%T: accepted %d of %d bytes", m, n, len(payload))
			}
		}
		if _, err := Decode(TypeOf(m), append(payload, 0)); err == nil {
			t.Errorf("%T: accepted a byte too many", m)
		}
	}
	for typ := Type(1); typ < typeEnd; typ++ {
		if !seen[typ] {
			t.Errorf("type %d is not tested", typ)
		}
	}
}

func TestLimits(t *testing.T) {
	for name, m := range map[string]Message{
		"id":       &Kill{Call: strings.Repeat("x", MaxID+1)},
		"no id":    &Kill{},
		"argument": &Exec{Call: "c", Argv: []string{strings.Repeat("x", MaxString+1)}},
		"no argv":  &Exec{Call: "c"},
		"list":     &Processes{Processes: make([]ProcessInfo, MaxList+1)},
		"frame":    &Exec{Call: "c", Argv: strings.Split(strings.Repeat(strings.Repeat("x", 100<<10)+" ", 11), " ")},
		"text":     &Exited{Outcome: OutcomeNotStarted, Phase: "\x1b[2J"},
		"outcome":  &Exited{Outcome: outcomeEnd},
	} {
		if _, err := Encode(m); err == nil {
			t.Errorf("%s: encoded", name)
		} else if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeader(t *testing.T) {
	good := Append(nil, Frame{Type: TypeReply, ID: 9, Payload: []byte{0, 0, 0, 1}})
	if f, files, n, err := Parse(good); err != nil || n != len(good) || files != 0 || f.ID != 9 || f.Type != TypeReply {
		t.Fatalf("%+v %d %d %v", f, files, n, err)
	}
	for n := range good {
		if _, _, used, err := Parse(good[:n]); err != nil || used != 0 {
			t.Errorf("%d bytes: %d, %v", n, used, err)
		}
	}
	for at, value := range map[int]byte{0: 1, 4: 0, 5: MaxFiles + 1, 6: Version + 1, 7: 1} {
		bad := bytes.Clone(good)
		bad[at] = value
		if _, _, _, err := Parse(bad); err == nil {
			t.Errorf("byte %d: accepted %d", at, value)
		}
	}
	if _, _, _, err := Parse(append(bytes.Clone(good[:4]), byte(typeEnd), 0, Version, 0, 0, 0, 0, 0)); err == nil {
		t.Error("accepted an unknown type")
	}
}

func pair(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	var conns [2]*Conn
	for i, fd := range fds {
		if conns[i], err = NewConn(fd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conns[i].Close() })
	}
	return conns[0], conns[1]
}

// TestConn sends frames of all sizes with and without descriptors, which have
// to arrive beside their own frame.
func TestConn(t *testing.T) {
	a, b := pair(t)
	var files []int
	for range MaxFiles {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		files = append(files, int(r.Fd()))
	}
	sizes := []int{0, 1, 100, 4 << 10, 70 << 10, MaxPayload}
	go func() {
		for i := range 60 {
			size := sizes[i%len(sizes)]
			_ = a.WriteFrame(Frame{Type: TypeExec, ID: uint32(i), Payload: bytes.Repeat([]byte{byte(i)}, size), Files: files[:i%(MaxFiles+1)]})
		}
		a.Close()
	}()
	for i := range 60 {
		f, err := b.Read()
		if err != nil {
			t.Fatal(err)
		}
		if f.ID != uint32(i) || len(f.Payload) != sizes[i%len(sizes)] || len(f.Files) != i%(MaxFiles+1) {
			t.Fatalf("frame %d: id %d, %d bytes, %d files", i, f.ID, len(f.Payload), len(f.Files))
		}
		for n, fd := range f.Files {
			if !same(t, fd, files[n]) {
				t.Errorf("frame %d: descriptor %d is another file", i, n)
			}
			if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("frame %d: descriptor %d is not close-on-exec", i, n)
			}
		}
		CloseFiles(f.Files)
	}
	if _, err := b.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func same(t *testing.T, a, b int) bool {
	t.Helper()
	var sa, sb unix.Stat_t
	if err := errors.Join(unix.Fstat(a, &sa), unix.Fstat(b, &sb)); err != nil {
		t.Fatal(err)
	}
	return sa.Ino == sb.Ino && sa.Dev == sb.Dev
}

func TestTruncatedStream(t *testing.T) {
	a, b := pair(t)
	if _, err := a.file.Write([]byte{0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := b.Read(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

// decodeAll decodes a stream of frames and proves that what is accepted
// encodes to the same bytes, within bounded memory.
func decodeAll(t *testing.T, b []byte, wanted map[Type]bool) {
	for {
		f, files, n, err := Parse(b)
		if err != nil || n == 0 {
			return
		}
		if len(f.Payload) > MaxPayload || files > MaxFiles {
			t.Fatalf("over the bounds: %d bytes, %d files", len(f.Payload), files)
		}
		if m, err := Decode(f.Type, f.Payload); err == nil && wanted[f.Type] {
			again, err := Encode(m)
			if err != nil || !bytes.Equal(again, f.Payload) {
				t.Fatalf("%T: accepted %x, encodes to %x, %v", m, f.Payload, again, err)
			}
			frame := Append(nil, Frame{Type: f.Type, ID: f.ID, Payload: again, Files: make([]int, files)})
			if !bytes.Equal(frame, b[:n]) {
				t.Fatalf("%T: frame %x, encodes to %x", m, b[:n], frame)
			}
		}
		b = b[n:]
	}
}

// toHost are the frames that init sends; all others go to init or to a shim.
var toHost = map[Type]bool{
	TypeHello: true, TypeStarted: true, TypeExited: true, TypeProcesses: true, TypeReport: true, TypeReply: true,
}

func seeds(f *testing.F, host bool) map[Type]bool {
	wanted := map[Type]bool{}
	for _, m := range messages() {
		if toHost[TypeOf(m)] != host {
			continue
		}
		wanted[TypeOf(m)] = true
		payload, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(Append(nil, Frame{Type: TypeOf(m), ID: 1, Payload: payload}))
	}
	return wanted
}

// FuzzHostDecode decodes what init sends to the host.
func FuzzHostDecode(f *testing.F) {
	wanted := seeds(f, true)
	f.Fuzz(func(t *testing.T, b []byte) { decodeAll(t, b, wanted) })
}

// FuzzInitDecode decodes what the host sends to init, and init to its shims.
func FuzzInitDecode(f *testing.F) {
	wanted := seeds(f, false)
	f.Fuzz(func(t *testing.T, b []byte) { decodeAll(t, b, wanted) })
}
