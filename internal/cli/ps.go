package cli

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/internal/term"
)

func newPs(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the sessions of this user",
		Args:  takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			_, list, err := a.listSessions()
			if err != nil {
				return err
			}
			shown := []contract.SessionDetail{}
			for _, d := range list {
				if all || !d.Record.State.Terminal() {
					shown = append(shown, d)
				}
			}
			if a.json {
				return a.printJSON(shown)
			}
			return outError(printSessions(a.Out, shown, time.Now()))
		},
	}
	cmd.Flags().BoolVarP(&all, "all", "a", false, "list the sessions that are over, too")
	return cmd
}

func printSessions(w io.Writer, list []contract.SessionDetail, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tAGE\tMODE\tWORKSPACE")
	for _, d := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", d.Record.SessionID, stateOf(d),
			units.HumanDuration(now.Sub(d.CreatedAt)), d.Mode, term.Escape(d.Record.WorkspaceRoot))
	}
	return t.Flush()
}

// stateOf is the state and, when the session is over, how it ended.
func stateOf(d contract.SessionDetail) string {
	state := string(d.Record.State)
	switch o := d.Outcome; {
	case o == nil || !d.Record.State.Terminal():
		return state
	case o.Error != nil:
		return state + " (" + string(o.Error.Code) + ")"
	case o.ExitCode != nil:
		return fmt.Sprintf("%s (%d)", state, *o.ExitCode)
	case o.Signal != "":
		return state + " (" + term.Escape(o.Signal) + ")"
	}
	return state
}
