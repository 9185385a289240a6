package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/realm"
)

// runOptions are the flags of `realm run`.
type runOptions struct {
	policy, image, workspace, podman, name string
	env, allow, unenforced                 []string
	gitWrite, detach, verbose              bool
}

func newRun(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] [--] COMMAND [ARGUMENT…]",
		Short: "Run a command in a session of its own",
		Long: `run starts a session, runs the command in it on this terminal, ends the session
and exits with the command's code.

The policy is that of --policy, else realm/policy.yaml below $XDG_CONFIG_HOME,
else {}: the workspace read-only, no network, the programs of this machine's
/usr. Of the environment the command sees what the policy's env and -e name.

The command gets a terminal when standard input and output are one, else pipes.
Ctrl-C goes to the command; when it does not react, a second one ends the
session. With --json the final session detail is printed on standard output and
what the command prints goes to standard error.`,
		Example: `  realm run -- make test
  realm run --policy ~/.config/realm/claude.yaml -- claude
  realm run --image registry.example.org/golang:1.26 -- go test ./...`,
		Args: needProgram,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), o, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.StringVar(&o.policy, "policy", "", "the policy `FILE`")
	f.StringVar(&o.image, "image", "", "the root file system: host, or an OCI `REFERENCE` (overrides the policy)")
	f.StringVar(&o.workspace, "workspace", ".", "the `DIRECTORY` that the session sees")
	f.StringArrayVarP(&o.env, "env", "e", nil, "pass the environment variable `NAME` on (repeatable)")
	f.StringArrayVar(&o.allow, "allow", nil, "a `HOST:PORT` that the session may reach (repeatable)")
	f.BoolVar(&o.gitWrite, "git-write", false, "let the session commit (policy: git: write)")
	f.StringArrayVar(&o.unenforced, "allow-unenforced", nil, "start although this host cannot enforce the `LIMIT` (memory, pids)")
	f.StringVar(&o.name, "name", "", "the session's `ID` (default: made)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say each state of the session on standard error")
	f.BoolVarP(&o.detach, "detach", "d", false, "leave the session to the manager service (not part of this version)")
	podmanFlag(cmd, &o.podman)
	return cmd
}

func needProgram(cmd *cobra.Command, args []string) error {
	if len(args) == 0 || args[0] == "" {
		return usagef("the command to run is missing").withHint("usage: %s", cmd.UseLine())
	}
	return nil
}

const (
	// stopGrace is what programs get between SIGTERM and the kill when their
	// session is ended.
	stopGrace = 2 * time.Second
	// stopBudget bounds the end of a session: all of it is bounded by itself.
	stopBudget = time.Minute
)

// runner is one `realm run`.
type runner struct {
	*app
	argv    []string
	verbose bool
	watch   *signalWatch
	show    *progress
}

// run is `realm run`. What can be refused is refused before anything is made;
// what is made is put away on every way out.
func (a *app) run(ctx context.Context, o runOptions, argv []string) error {
	if o.detach {
		return usagef("-d needs realm's manager service, which is not part of this version").
			withHint("use the shell: realm run … </dev/null &")
	}
	var err error
	if o.workspace, err = workspaceDir(o.workspace); err != nil {
		return err
	}
	compiled, err := a.runPolicy(o)
	if err != nil {
		return err
	}
	r := runner{app: a, argv: argv, verbose: o.verbose, watch: watchSignals(ctx), show: newProgress(a.Err)}
	defer r.watch.close()
	defer r.show.done()
	return r.watch.verdict(r.on(o.podman, realm.Request{
		Policy: compiled, Workspace: o.workspace, SessionID: o.name,
		Env: environ(compiled.Policy().Env), AllowUnenforced: o.unenforced,
		SearchPath: filepath.SplitList(os.Getenv("PATH")),
	}))
}

// on opens the engine, makes the session and runs the command in it.
func (r *runner) on(podman string, req realm.Request) error {
	m, err := r.open(r.watch.ctx, podman, r.show)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.pull(r.watch.ctx, req.Policy.Policy().Image, r.show); err != nil {
		return err
	}
	r.show.step("starting the session")
	s, err := m.Create(r.watch.ctx, req)
	if err != nil {
		return err
	}
	if r.verbose {
		r.show.done() // the states say more
		defer r.sayStates(s)()
	}
	err = r.attend(s)
	r.show.step("ending the session")
	if serr := end(s); err == nil {
		err = serr
	}
	r.show.done()
	return r.conclude(s, r.watch.verdict(err))
}

// sayStates prints each state that the session gets into. The function that it
// returns waits for the last one.
func (r *runner) sayStates(s *realm.Session) (wait func()) {
	records := s.Watch(context.Background()) // ends with the session
	done := make(chan struct{})
	go func() {
		defer close(done)
		for rec := range records {
			fmt.Fprintf(r.Err, "realm: session %s %s%s", rec.SessionID, rec.State, lineEnd(r.Err))
		}
	}()
	return func() { <-done }
}

// attend waits for the session, runs the command, and leaves the terminal as it
// was found.
func (r *runner) attend(s *realm.Session) error {
	if err := s.WaitReady(r.watch.ctx); err != nil {
		return err
	}
	r.show.done()
	con, err := r.console(r.watch)
	if err != nil {
		return err
	}
	defer con.restore()
	defer r.watch.attach(con.attachment(func() { _ = end(s) }))()
	// Not cut short by the end of watch.ctx: the session's end is the command's.
	outcome, err := s.Run(context.WithoutCancel(r.watch.ctx), con.attached(r.argv))
	if err != nil {
		return err
	}
	return outcomeError(outcome)
}

// end ends a session and waits until it is gone.
func end(s *realm.Session) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopBudget)
	defer cancel()
	_, err := s.Stop(ctx, stopGrace)
	return err
}

// conclude tells what a person should know of a session that is over and, with
// --json, all that is known.
func (a *app) conclude(s *realm.Session, err error) error {
	d := s.Detail()
	for _, h := range d.HeldBack {
		say(a.Err, "held back: %s: %s", h.Path, h.Reason)
	}
	if d.Outcome != nil && d.Outcome.Reason == string(contract.OOM) {
		say(a.Err, "the command ran out of memory (limits.memoryBytes)")
	}
	if !a.json {
		return err
	}
	a.answered = true
	if jerr := a.printJSON(d); err == nil {
		return jerr
	}
	return err
}

// outcomeError is how the command ended, as this program's exit code.
func outcomeError(o contract.Outcome) error {
	switch {
	case o.Error != nil:
		return o.Error
	case o.ExitCode != nil:
		return exitWith(*o.ExitCode)
	case o.Signal != "":
		return exitWith(exitSignal + int(unix.SignalNum(o.Signal)))
	}
	return contract.Errorf(contract.SessionLost, "nobody knows how the command ended")
}
