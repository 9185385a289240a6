package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/internal/term"
	"realm.dev/policy"
	"realm.dev/realm"
	"realm.dev/realm/workspace"
)

// explainOptions are the flags of `realm policy explain`.
type explainOptions struct{ workspace, call, egress string }

func newPolicyExplain(a *app) *cobra.Command {
	var o explainOptions
	cmd := &cobra.Command{
		Use:   "explain FILE (--call JSON | --egress HOST:PORT)",
		Short: "Say what a policy decides about a call, and why",
		Long: `explain decides about a tool call, or about a connection, by the code that does so
in a session, without a session. It ends with 0 for allow, 3 for deny and 10 for
ask. With --json it prints {"decision", "code", "rule", "reason"}.`,
		Example: `  realm policy explain go.yaml --call '{"exec": {"argv": ["sh", "-c", "id"]}}'
  realm policy explain go.yaml --egress proxy.example.org:443`,
		Args: takes(1, 1, "the policy file"),
		RunE: func(_ *cobra.Command, args []string) error {
			if (o.call == "") == (o.egress == "") {
				return usagef("either --call or --egress")
			}
			return a.explain(o, args[0])
		},
	}
	cmd.Flags().StringVar(&o.workspace, "workspace", ".", "the session's workspace, a `DIRECTORY`")
	cmd.Flags().StringVar(&o.call, "call", "", "the tool call, `JSON`, or - for standard input")
	cmd.Flags().StringVar(&o.egress, "egress", "", "the connection, `HOST:PORT`")
	return cmd
}

func (a *app) explain(o explainOptions, file string) error {
	if o.egress != "" {
		return a.explainEgress(o.egress, file)
	}
	dir, err := workspaceDir(o.workspace)
	if err != nil {
		return err
	}
	doc, err := a.readPolicy(file, dir)
	if err != nil {
		return err
	}
	c, err := compilePolicy(doc)
	if err != nil {
		return err
	}
	d, err := a.explainCall(c, dir, o.call)
	if err != nil {
		return err
	}
	return a.printDecision(d)
}

// explainEgress decides about a connection by its name alone.
func (a *app) explainEgress(to, file string) error {
	entry, err := destination(to)
	if err != nil {
		return usagef("--egress: %v", err).withHint("--egress example.org:443")
	}
	doc, err := a.readPolicy(file, "")
	if err != nil {
		return err
	}
	c, err := compilePolicy(doc)
	if err != nil {
		return err
	}
	return a.printDecision(c.Egress(entry.Host, entry.Port))
}

// explainCall takes a call through what it meets in a session: the decoder, the
// file system of the workspace, the rules.
func (a *app) explainCall(c *policy.Compiled, dir, text string) (policy.Decision, error) {
	data := []byte(text)
	if text == "-" {
		var err error
		if data, err = readBounded(a.In, contract.MaxCallBytes); err != nil {
			return policy.Decision{}, err
		}
	}
	tree, err := openTree(c, dir)
	if err != nil {
		return policy.Decision{}, err
	}
	defer func() { _ = tree.Close() }()
	call, err := contract.Decode[contract.ToolCall](data)
	if err != nil {
		return refusedBy(err, "schema"), nil
	}
	return decide(c, tree, call), nil
}

// decide is what a session does before it runs a call.
func decide(c *policy.Compiled, tree *workspace.Tree, call contract.ToolCall) policy.Decision {
	req := policy.Request{Call: call}
	if path, op, ok := pathOf(&call); ok {
		at, err := tree.Resolve(op, path)
		if err != nil {
			return refusedBy(err, "")
		}
		req.Resolved, req.File = at.Name, at.State
		_ = at.Close()
	}
	return c.Decide(req)
}

// pathOf is the path that a call is about.
func pathOf(call *contract.ToolCall) (path string, op policy.Op, ok bool) {
	switch {
	case call.Write != nil:
		return call.Write.Path, policy.OpWrite, true
	case call.Read != nil:
		return call.Read.Path, policy.OpRead, true
	case call.List != nil:
		return call.List.Path, policy.OpList, true
	case call.Exec != nil:
		return call.Exec.Cwd, policy.OpExec, true
	}
	return "", policy.OpRead, false
}

func openTree(c *policy.Compiled, dir string) (*workspace.Tree, error) {
	dirs, err := realm.DefaultDirs()
	if err != nil {
		return nil, err
	}
	home, _ := os.UserHomeDir()
	return workspace.Open(dir, workspace.Options{StateDir: dirs.State, RuntimeDir: dirs.Runtime, Home: home, Policy: c})
}

// refusedBy is an error as a decision: the call would get it as its answer.
func refusedBy(err error, rule string) policy.Decision {
	e := contract.AsError(err)
	reason := e.Detail
	switch {
	case len(e.Violations) > 0:
		rule, reason = e.Violations[0].Pointer, e.Violations[0].Rule
	case rule == "": // "reason (rule)"
		if i := strings.LastIndex(reason, " ("); i > 0 && strings.HasSuffix(reason, ")") {
			reason, rule = reason[:i], reason[i+2:len(reason)-1]
		}
	}
	return policy.Decision{Effect: contract.Deny, Code: e.Code, Rule: rule, Reason: reason}
}

func (a *app) printDecision(d policy.Decision) error {
	if a.json {
		if err := a.printJSON(d); err != nil {
			return err
		}
	} else {
		line := string(d.Effect)
		if d.Code != "" {
			line += " " + string(d.Code)
		}
		if _, err := fmt.Fprintln(a.Out, term.Escape(fmt.Sprintf("%s: %s (%s)", line, d.Reason, d.Rule))); err != nil {
			return outError(err)
		}
	}
	switch d.Effect {
	case contract.Allow:
		return nil
	case contract.Ask:
		return exitWith(exitAsk)
	case contract.Deny:
	}
	return exitWith(contract.ExitRefused)
}
