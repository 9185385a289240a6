package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/internal/term"
	"realm.dev/realm/client"
)

func newShow(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show all that is known of a session",
		Args:  takes(1, 1, "the session's id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, list, err := a.listSessions()
			if err != nil {
				return err
			}
			d, err := findSession(list, args[0], 1)
			if err != nil {
				return err
			}
			d = live(cmd.Context(), d)
			if a.json {
				return a.printJSON(d)
			}
			_, err = io.WriteString(a.Out, describe(d))
			return outError(err)
		},
	}
}

// liveBudget bounds the question to a session's process.
const liveBudget = 3 * time.Second

// live asks a session that is not over for what is true now; what is on disk
// is of its last transition.
func live(ctx context.Context, d contract.SessionDetail) contract.SessionDetail {
	if d.Record.State.Terminal() {
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, liveBudget)
	defer cancel()
	c, err := client.Dial(d.Record.ControlSocketPath)
	if err != nil {
		return d
	}
	now, err := c.Session(ctx)
	if err != nil {
		return d
	}
	return now
}

// describe is the session detail for people: one fact a line, escaped.
func describe(d contract.SessionDetail) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, term.Escape(fmt.Sprintf(format, args...)))
	}
	line("session", "%s", d.Record.SessionID)
	line("state", "%s", stateOf(d))
	line("workspace", "%s, %s, git: %s", d.Record.WorkspaceRoot, d.Mode, d.Git)
	line("image", "%s", strings.TrimSpace(d.Image.Ref+" "+d.Image.Digest))
	line("policy", "%s", d.PolicyDigest)
	line("egress", "%s", d.Egress)
	if e := d.Engine; e != nil {
		line("engine", "Podman %s, %s, rootless: %t, cgroups %s", e.Podman, e.Runtime, e.Rootless, e.Cgroups)
		for _, hole := range e.KnownHoles {
			line("known hole", "%s", hole)
		}
	}
	if d.Record.ContainerID != nil {
		line("container", "%s", *d.Record.ContainerID)
	}
	line("socket", "%s", d.Record.ControlSocketPath)
	line("created", "%s", d.CreatedAt.Format(time.RFC3339))
	moment(line, "ready", d.ReadyAt)
	moment(line, "ended", d.EndedAt)
	describeEnd(line, d.Outcome)
	describeProof(line, d)
	for _, h := range d.HeldBack {
		line("held back", "%s: %s", h.Path, h.Reason)
	}
	for _, c := range d.Background {
		line("processes", "%d of call %s", c.Processes, c.CallID)
	}
	return b.String()
}

func moment(line func(name, format string, args ...any), name string, at *time.Time) {
	if at != nil {
		line(name, "%s", at.Format(time.RFC3339))
	}
}

func describeEnd(line func(name, format string, args ...any), o *contract.Outcome) {
	if o == nil {
		return
	}
	line("outcome", "by %s: %s", o.Source, o.Reason)
	if e := o.Error; e != nil {
		line("error", "%s", e.Error())
		if e.Hint != "" {
			line("hint", "%s", e.Hint)
		}
	}
}

// describeProof tells what was proven, which limits hold, and every weakening.
func describeProof(line func(name, format string, args ...any), d contract.SessionDetail) {
	passed := 0
	for _, p := range d.Probes {
		if p.OK {
			passed++
		} else {
			line("probe failed", "%s: %s", p.Name, p.Detail)
		}
	}
	if len(d.Probes) > 0 {
		line("probes", "%d of %d passed", passed, len(d.Probes))
	}
	for _, l := range d.Limits {
		if l.InForce == nil {
			line("limit", "%s %s asked, not enforced: %s", l.Name, number(l.Asked), l.Detail)
		} else {
			line("limit", "%s %s by %s", l.Name, number(*l.InForce), l.By)
		}
	}
	for _, c := range d.Conditions {
		line("condition", "%s is %t: %s", c.Type, c.Status, strings.TrimSpace(c.Reason+" "+c.Message))
	}
	for _, w := range d.Degraded {
		line("degraded", "%s", w)
	}
}

// number writes bytes and counts without an exponent.
func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
