package cli

import (
	"context"
	"encoding/base64"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"realm.dev/contract"
	"realm.dev/realm/client"
)

// execOptions are the flags of `realm exec`.
type execOptions struct {
	dir     string
	env     []string
	timeout time.Duration
	stdin   bool
}

func newExec(a *app) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec ID [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a command in a session that is running",
		Long: `exec runs a command in a session, whoever started it, prints what it prints and
exits with its code. It is a call like an agent's: the session's policy decides,
and the policy's limits.execMs bounds it. With --json the tool result is printed
instead of the output. On a terminal control characters are shown, not sent.`,
		Example: "  realm exec s-4k2 -C src -- go vet ./...",
		Args:    needSessionAndProgram,
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(cmd.Context(), func(ctx context.Context) error { return a.exec(ctx, o, args[0], args[1:]) })
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.dir, "directory", "C", "", "the working `DIRECTORY`, relative to the workspace")
	f.StringArrayVarP(&o.env, "env", "e", nil, "set `NAME=VALUE`; NAME alone takes this process's value (repeatable)")
	f.DurationVar(&o.timeout, "timeout", 0, "end the command after this `TIME` (default: limits.execMs)")
	f.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input, read to its end first (at most 16 MiB)")
	return cmd
}

func needSessionAndProgram(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0:
		return usagef("-- must stand before the command").withHint("usage: %s", cmd.UseLine())
	case dash != 1:
		return usagef("one session's id must stand before --").withHint("usage: %s", cmd.UseLine())
	case len(args) < 2:
		return usagef("the command to run is missing").withHint("usage: %s", cmd.UseLine())
	}
	return nil
}

func (a *app) exec(ctx context.Context, o execOptions, name string, argv []string) error {
	call, err := a.execCall(o, argv)
	if err != nil {
		return err
	}
	_, list, err := a.listSessions()
	if err != nil {
		return err
	}
	d, err := findSession(list, name, 1)
	if err != nil {
		return err
	}
	c, err := client.Dial(d.Record.ControlSocketPath)
	if err != nil {
		return about(d, err)
	}
	var res contract.ToolResult
	if a.json {
		res, err = c.Call(ctx, call, client.CallOptions{})
	} else {
		res, err = a.stream(ctx, c, call)
	}
	if err != nil && res.Exec != nil && contract.CodeOf(err) == contract.LimitExceeded {
		// The command has ended; only a part of its output was not shown.
		say(a.Err, "output was left out: it came faster than it could be shown")
		err = nil
	}
	if err != nil {
		return about(d, err)
	}
	return a.execResult(res)
}

// stream prints the output as it comes.
func (a *app) stream(ctx context.Context, c *client.Client, call *contract.ToolCall) (contract.ToolResult, error) {
	stdout, flushOut := show(a.Out)
	stderr, flushErr := show(a.Err)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, err := c.Call(ctx, call, client.CallOptions{Output: func(stream string, _ int64, p []byte) {
		w := stdout
		if stream == "stderr" {
			w = stderr
		}
		if _, err := w.Write(p); err != nil {
			cancel(outError(err)) // nobody reads on: the call ends with the connection
		}
	}})
	if cause := context.Cause(ctx); cause != nil {
		return res, cause
	}
	if ferr := flushOut(); err == nil {
		err = outError(ferr)
	}
	if ferr := flushErr(); err == nil {
		err = outError(ferr)
	}
	return res, err
}

// execResult is how the command ended, as this program's exit code.
func (a *app) execResult(res contract.ToolResult) error {
	if a.json {
		a.answered = true
		if err := a.printJSON(res); err != nil {
			return err
		}
	}
	switch e := res.Exec; {
	case res.Error != nil:
		return res.Error
	case e == nil:
		return contract.Errorf(contract.Internal, "the result has no exec")
	case e.ExitCode != nil:
		return exitWith(*e.ExitCode)
	case e.Signal != "":
		if e.Outcome == contract.OOM {
			say(a.Err, "the command ran out of memory (limits.memoryBytes)")
		}
		return exitWith(exitSignal + int(unix.SignalNum(e.Signal)))
	}
	return contract.Errorf(contract.SessionLost, "nobody knows how the command ended")
}

// execCall makes the call that the flags describe.
func (a *app) execCall(o execOptions, argv []string) (*contract.ToolCall, error) {
	e := &contract.ExecCall{Argv: argv, Cwd: o.dir, TimeoutMs: o.timeout.Milliseconds()}
	if o.timeout < 0 || o.timeout > 0 && e.TimeoutMs == 0 {
		return nil, usagef("--timeout must be at least a millisecond")
	}
	for i, text := range o.env {
		name, value, given := strings.Cut(text, "=")
		if !given {
			value, given = os.LookupEnv(name)
		}
		if !given {
			return nil, usagef("-e %s: this variable is not set here", ordinal(i+1))
		}
		if e.Env == nil {
			e.Env = map[string]string{}
		}
		e.Env[name] = value
	}
	if o.stdin {
		data, err := readBounded(a.In, contract.MaxContentBytes)
		if err != nil {
			return nil, err
		}
		e.Stdin, e.StdinEncoding = base64.StdEncoding.EncodeToString(data), contract.Base64
	}
	return &contract.ToolCall{Exec: e}, nil
}
