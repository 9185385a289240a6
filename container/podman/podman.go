// Package podman drives Podman 5 as a container.Engine. It alone imports
// Podman's client library, and turns everything that comes from there into
// realm's own types and errors.
package podman

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"

	"realm.dev/container"
	"realm.dev/contract"
)

// Options say which engine to use.
type Options struct {
	// URL of the engine's socket. When empty: CONTAINER_HOST, the user's socket,
	// the system's socket, and else a service that the Engine starts itself.
	URL string
	// RuntimeDir is a private directory of ours that does not outlive a boot. What
	// the own service needs, and what is remembered about the engine, is there.
	RuntimeDir string
	// Logger takes what Podman's library and the engine have to say; nil discards it.
	Logger *slog.Logger
}

// maxRemovals bounds removals in flight: more only wait for Podman's database.
const maxRemovals = 2

// Engine is a connection to one Podman service. It implements container.Engine.
type Engine struct {
	log      *slog.Logger
	conn     *connection
	creates  chan struct{} // bounds creations in flight
	removals chan struct{}

	mu    sync.Mutex // guards facts
	facts *facts     // nil until the engine was asked
	dir   string     // where facts are remembered
}

var _ container.Engine = (*Engine)(nil)

// Open connects to the engine and refuses a version that realm cannot use.
func Open(ctx context.Context, o Options) (*Engine, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if !filepath.IsAbs(o.RuntimeDir) {
		// Facts and sockets must not come from wherever we happen to be.
		return nil, contract.Errorf(contract.Internal, "the engine has no runtime directory")
	}
	redirectLogrus(log)
	conn, err := connect(ctx, o, log)
	if err != nil {
		return nil, err
	}
	return newEngine(conn, o.RuntimeDir, log), nil
}

func newEngine(conn *connection, dir string, log *slog.Logger) *Engine {
	return &Engine{
		log: log, conn: conn, dir: dir,
		creates:  make(chan struct{}, 2*runtime.NumCPU()),
		removals: make(chan struct{}, maxRemovals),
	}
}

// Close ends the connection, and the service when it is the Engine's own.
// Containers go on without it.
func (e *Engine) Close() error { return e.conn.close() }

// acquire takes a slot of one of the bounds, but not for a ctx that has ended.
func acquire(ctx context.Context, slots chan struct{}) (release func(), err error) {
	if ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
			return func() { <-slots }, nil
		case <-ctx.Done():
		}
	}
	return nil, contract.Errorf(contract.PodmanUnavailable, "the engine had no time left").WithCause(context.Cause(ctx))
}
