package cli

import (
	"context"
	"fmt"
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
	f.BoolVarP(&o.detach, "detach", "d", false, "leave the session to the manager service")
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
	watch := watchSignals(ctx)
	defer watch.close()
	show := newProgress(a.Err)
	defer show.done()
	req := realm.Request{
		Policy: compiled, Workspace: o.workspace, SessionID: o.name,
		Env: environ(compiled.Policy().Env), AllowUnenforced: o.unenforced,
	}
	m, err := a.open(watch.ctx, o.podman, show)
	if err != nil {
		return watch.verdict(err)
	}
	defer m.close()
	return a.runIn(m, req, argv, o.verbose, watch, show)
}

// runIn runs the command in a new session of m.
func (a *app) runIn(m *manager, req realm.Request, argv []string, verbose bool, watch *signalWatch, show *progress) error {
	if err := m.pull(watch.ctx, req.Policy.Policy().Image, show); err != nil {
		return watch.verdict(err)
	}
	show.step("starting the session")
	s, err := m.Create(watch.ctx, req)
	if err != nil {
		return watch.verdict(err)
	}
	if verbose {
		show.done() // the states say more
		defer a.sayStates(s)()
	}
	err = a.attend(s, argv, watch, show)
	show.step("ending the session")
	if serr := end(s); err == nil {
		err = serr
	}
	show.done()
	return a.conclude(s, watch.verdict(err))
}

// sayStates prints each state that the session gets into. The function that it
// returns waits for the last one.
func (a *app) sayStates(s *realm.Session) (wait func()) {
	records := s.Watch(context.Background()) // ends with the session
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := range records {
			fmt.Fprintf(a.Err, "realm: session %s %s\n", r.SessionID, r.State)
		}
	}()
	return func() { <-done }
}

// attend waits for the session, runs the command, and leaves the terminal as it
// was found.
func (a *app) attend(s *realm.Session, argv []string, watch *signalWatch, show *progress) error {
	if err := s.WaitReady(watch.ctx); err != nil {
		return err
	}
	show.done()
	con, err := a.console(watch)
	if err != nil {
		return err
	}
	defer con.restore()
	defer watch.attach(con.attachment(func() { _ = end(s) }))()
	// Not cut short by the end of watch.ctx: the session's end is the command's.
	outcome, err := s.Run(context.WithoutCancel(watch.ctx), con.attached(argv))
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
	for _, c := range d.Conditions {
		if c.Status && c.Type == "HostExecutedFiles" {
			say(a.Err, "before you use git here: %s", c.Message)
		}
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
