package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"realm.dev/container"
	"realm.dev/container/podman"
	"realm.dev/contract"
	"realm.dev/internal/term"
	"realm.dev/realm"
)

// manager is realm on an engine, for one command.
type manager struct {
	*realm.Manager
	engine container.Engine
}

func podmanFlag(cmd *cobra.Command, url *string) {
	cmd.Flags().StringVar(url, "podman", "", "the Podman service, a `URL` unix://… (default: $CONTAINER_HOST, else the user's, else one of realm's own)")
}

// open connects to the engine and opens realm on it.
func (a *app) open(ctx context.Context, url string, show *progress) (*manager, error) {
	return a.openWith(ctx, realm.Options{}, url, show)
}

func (a *app) openWith(ctx context.Context, o realm.Options, url string, show *progress) (*manager, error) {
	dirs, err := realm.DefaultDirs()
	if err != nil {
		return nil, err
	}
	if o.InitBinary, err = findInit(); err != nil {
		return nil, err
	}
	show.step("connecting to Podman")
	engine, err := a.openEngine(ctx, dirs, url)
	if err != nil {
		return nil, err
	}
	o.Dirs, o.Engine, o.Logger = dirs, engine, a.logger()
	m, err := realm.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return &manager{m, engine}, nil
}

// openEngine connects to the engine. Its own service, if it needs one, keeps its
// files in realm's runtime directory.
func (a *app) openEngine(ctx context.Context, dirs realm.Dirs, url string) (container.Engine, error) {
	if err := dirs.Ensure(); err != nil {
		return nil, err
	}
	return podman.Open(ctx, podman.Options{URL: url, RuntimeDir: dirs.Runtime, Logger: a.logger()})
}

// pull makes an image available before a session exists: a pull takes as long
// as it takes, a start has a budget.
func (m *manager) pull(ctx context.Context, ref string, show *progress) error {
	if ref == imageHost {
		return nil
	}
	_, err := m.engine.EnsureImage(ctx, ref, show.pulling(ref))
	return err
}

// imageHost is the policy's name for this machine's own programs.
const imageHost = "host"

// close ends what is still open, for a bounded time.
func (m *manager) close() {
	ctx, cancel := context.WithTimeout(context.Background(), stopBudget)
	defer cancel()
	_ = m.Close(ctx)
}

// findInit looks for realm-init where an installation has it: beside this
// program, or in libexec/realm next to its directory.
func findInit() (string, error) {
	path, err := self()
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	for _, candidate := range []string{
		filepath.Join(dir, initName),
		filepath.Join(filepath.Dir(dir), "libexec", "realm", initName),
	} {
		fi, err := os.Stat(candidate)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !fi.Mode().IsRegular() || fi.Mode().Perm()&0o111 == 0 {
			return "", contract.Errorf(contract.Internal, "%s is there and not executable", initName).WithCause(err).WithHint("chmod 0755 it")
		}
		return candidate, nil
	}
	return "", contract.Errorf(contract.Internal, "%s is not installed beside realm, nor in libexec/realm", initName).
		WithHint("install both programs of the release")
}

const initName = "realm-init"

// logger writes what realm itself has to say about a failure it went on from:
// errors only, or everything with --debug.
func (a *app) logger() *slog.Logger {
	level := slog.LevelError
	if a.debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(logWriter{a.Err}, &slog.HandlerOptions{Level: level}))
}

// logWriter writes the lines of a log as lines of realm's own.
type logWriter struct{ w io.Writer }

func (l logWriter) Write(p []byte) (int, error) {
	line := strings.TrimSuffix(string(p), "\n")
	if _, err := io.WriteString(l.w, "realm: "+line+lineEnd(l.w)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lineEnd ends a line that is written while a terminal may be in raw mode.
func lineEnd(w io.Writer) string {
	if _, ok := term.IsTerminal(w); ok {
		return "\r\n"
	}
	return "\n"
}

// private reports why a directory is not this user's alone.
func private(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return errors.New("is not there")
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return errors.New("is not a directory")
	case int(st.Uid) != os.Geteuid():
		return errors.New("belongs to another user")
	case st.Mode&0o077 != 0:
		return errors.New("is open to others")
	}
	return nil
}
