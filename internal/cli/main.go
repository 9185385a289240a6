package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/internal/buildinfo"
)

// app is what every command has: the streams, and the flags that all share.
type app struct {
	Streams
	args  []string // the whole command line, to find the place of a mistake in it
	json  bool
	debug bool
	// answered says that the JSON document of the command is printed already.
	answered bool
}

// Main runs the command line args, without the program's name, and returns the
// exit code.
func Main(args []string, s Streams) (code int) {
	a := &app{Streams: s, args: args}
	defer func() {
		if v := recover(); v != nil {
			code = a.panicked(v)
		}
	}()
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(context.Background())
	a.fail(err)
	return exitCode(err)
}

// fail tells of err: to people, and with --json to programs as well.
func (a *app) fail(err error) {
	if err == nil {
		return
	}
	if _, printed := errors.AsType[*exitError](err); printed {
		return
	}
	report(a.Err, err)
	if e, ok := errors.AsType[*contract.Error](err); ok && a.debug && e.Cause != nil {
		say(a.Err, "cause: %v", e.Cause)
	}
	if _, usage := errors.AsType[*usageError](err); a.json && !a.answered && !usage {
		_ = a.printJSON(struct {
			Error *contract.Error `json:"error"`
		}{contract.AsError(err)})
	}
}

// panicked tells where realm broke. The value of a panic may hold anything, so
// only its type is shown.
func (a *app) panicked(v any) int {
	say(a.Err, "%s: %s: a panic of type %T", contract.Internal, contract.Internal.Reason(), v)
	fmt.Fprintf(a.Err, "%s\n", debug.Stack())
	hint(a.Err, "please report this trace")
	return contract.Internal.Exit()
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "realm",
		Short: "Run untrusted programs on your files, in sessions that are proven closed",
		Long: `realm runs a program (a coding agent, a build, a test suite) in a session: one
Podman container that sees the workspace and nothing else of this machine. What
it may do is said by a policy; that it can do no more is proven before it starts.

  realm run -- make test                      # the current directory, read-only
  realm run --policy go.yaml -- go build ./…  # what go.yaml allows`,
		Args:              unknownCommand,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:           buildinfo.Read().Version,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SetFlagErrorFunc(a.flagError)
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON, of a stable shape")
	root.PersistentFlags().BoolVar(&a.debug, "debug", false, "tell on standard error what realm does")
	root.PersistentFlags().BoolP("help", "h", false, "show help")
	root.SetHelpCommand(newHelp())
	addCommands(root, a)
	return root
}

func addCommands(root *cobra.Command, a *app) {
	root.AddGroup(
		&cobra.Group{ID: "session", Title: "Sessions:"},
		&cobra.Group{ID: "document", Title: "Documents:"},
		&cobra.Group{ID: "self", Title: "This program:"},
	)
	in := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in("session", newRun(a), newPs(a), newShow(a), newExec(a), newStop(a), newRm(a), newGC(a))
	in("document", newPolicy(a), newSchema(a))
	in("self", newDoctor(a), newVersion(a), newCompletion(a))
	root.AddCommand(topics()...)
}

// System exit codes that are not in the error catalogue.
const (
	exitAsk    = 10  // `policy explain`: somebody would be asked
	exitSignal = 128 // plus the signal's number
)

// self is the path of this program, for finding what is installed beside it.
func self() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", contract.Errorf(contract.Internal, "this program does not know its own path").WithCause(err)
	}
	return path, nil
}
