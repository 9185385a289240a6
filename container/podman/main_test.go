package podman

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"realm.dev/container"
)

// TestMain makes the test binary PID 1 of the containers of the tests: under
// that name it dials out as realm-init does and runs what the test asks for.
func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		fmt.Fprintln(os.Stderr, holdMain())
		os.Exit(1)
	}
	if os.Args[0] != container.InitPath {
		os.Exit(m.Run())
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "wait":
			time.Sleep(time.Hour) // the suite's PID 1
		case "init":
			if err := initMain(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(probeMain(os.Args[1:]))
}

// holdEnv makes the test binary hold a service open.
const holdEnv = "REALM_TEST_HOLD"

// request asks init to run a probe.
type request struct {
	Argv []string // [probe, arguments...] or an absolute path
	UID  uint32
}

// response is what a probe printed and how it ended.
type response struct {
	Output string
	Code   int
}

const socketName = "test.sock"

func initMain() error {
	conn, err := net.Dial("unix", filepath.Join(container.SocketDir, socketName))
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(bufio.NewReader(conn)), json.NewEncoder(conn)
	for {
		var req request
		if err := in.Decode(&req); err != nil {
			return err
		}
		if err := out.Encode(runProbe(req)); err != nil {
			return err
		}
	}
}

func runProbe(req request) response {
	cmd := exec.Command(container.InitPath, req.Argv...)
	if filepath.IsAbs(req.Argv[0]) {
		cmd = exec.Command(req.Argv[0], req.Argv[1:]...)
	}
	cmd.Args[0] = cmd.Path
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: req.UID, Gid: req.UID}}
	output, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		return response{Output: err.Error(), Code: -1}
	}
	return response{Output: string(output), Code: cmd.ProcessState.ExitCode()}
}

// guest is the test's end of a container's PID 1.
type guest struct {
	t    *testing.T
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

// listen makes the directory that a container dials out through.
func listen(t *testing.T, dir string) *net.UnixListener {
	t.Helper()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, socketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	return l
}

func accept(t *testing.T, l *net.UnixListener) *guest {
	t.Helper()
	if err := l.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("PID 1 did not call: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return &guest{t: t, conn: conn, in: json.NewDecoder(bufio.NewReader(conn)), out: json.NewEncoder(conn)}
}

// run runs a probe or a program as the programs' user.
func (g *guest) run(argv ...string) response { return g.runAs(container.ProgramUID, argv...) }

func (g *guest) runAs(uid uint32, argv ...string) response {
	g.t.Helper()
	var resp response
	err := g.out.Encode(request{Argv: argv, UID: uid})
	if err == nil {
		err = g.conn.SetReadDeadline(time.Now().Add(60 * time.Second))
	}
	if err == nil {
		err = g.in.Decode(&resp)
	}
	if err != nil {
		g.t.Fatalf("%q: %v", argv, err)
	}
	return resp
}

// probes are the small programs that tests run inside.
var probes = map[string]func(args []string) error{
	"true": func([]string) error { return nil },
	"cat": func(args []string) error {
		for _, name := range args {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			os.Stdout.Write(data)
		}
		return nil
	},
	"env": func([]string) error {
		_, err := fmt.Println(strings.Join(os.Environ(), "\n"))
		return err
	},
	"filter": filterProbe,
	"list": func(args []string) error {
		for _, dir := range args {
			entries, err := os.ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			for _, entry := range entries {
				fmt.Println(entry.Name())
			}
		}
		return nil
	},
	"owner": func(args []string) error {
		var st syscall.Stat_t
		if err := syscall.Stat(args[0], &st); err != nil {
			return err
		}
		_, err := fmt.Println(st.Uid, st.Gid)
		return err
	},
	// Each of these prints how often it could do it.
	"spawn": func(args []string) error {
		return countUntilError(args[0], func() error { return exec.Command("/bin/sleep", "60").Start() })
	},
	"openfiles": func(args []string) error {
		return countUntilError(args[0], func() error {
			_, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
			return err
		})
	},
	"fill": func(args []string) error {
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return err
		}
		return os.WriteFile(args[0], make([]byte, n), 0o600)
	},
	"write": func(args []string) error { return os.WriteFile(args[0], []byte(args[1]), 0o644) },
}

func countUntilError(most string, do func() error) error {
	n, err := strconv.Atoi(most)
	if err != nil {
		return err
	}
	for i := range n {
		if do() != nil {
			_, err := fmt.Println(i)
			return err
		}
	}
	_, err = fmt.Println(n)
	return err
}

func probeMain(args []string) int {
	if len(args) == 0 || !slices.Contains(probeNames(), args[0]) {
		fmt.Println("no such probe")
		return 127
	}
	if err := probes[args[0]](args[1:]); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func probeNames() []string {
	var names []string
	for name := range probes {
		names = append(names, name)
	}
	return names
}
