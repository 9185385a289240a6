package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/realm/client"
)

func newStop(a *app) *cobra.Command {
	var all bool
	var grace time.Duration
	cmd := &cobra.Command{
		Use:   "stop ID… | --all",
		Short: "End sessions",
		Long: `stop ends sessions and waits until nothing of them is left. Their programs get
SIGTERM and, after the grace, are killed. One that is over already is no error.`,
		Args: func(cmd *cobra.Command, args []string) error { return idsOrAll(cmd, args, all) },
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(cmd.Context(), func(ctx context.Context) error { return a.stop(ctx, args, grace) })
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "end every session of this user")
	cmd.Flags().DurationVar(&grace, "grace", stopGrace, "the `TIME` between SIGTERM and the kill")
	return cmd
}

// idsOrAll refuses both, and neither.
func idsOrAll(cmd *cobra.Command, args []string, all bool) error {
	if all != (len(args) == 0) {
		return usagef("either ids or --all").withHint("usage: %s", cmd.UseLine())
	}
	return nil
}

func (a *app) stop(ctx context.Context, names []string, grace time.Duration) error {
	_, list, err := a.listSessions()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if list, err = findSessions(list, names); err != nil {
			return err
		}
	} else {
		list = slices.DeleteFunc(list, func(d contract.SessionDetail) bool { return d.Record.State.Terminal() })
	}
	records := make([]*contract.SessionRecord, len(list))
	err = a.forEach(list, func(i int, d contract.SessionDetail) error {
		rec, err := stopOne(ctx, d, grace)
		if err == nil {
			records[i] = &rec
		}
		return err
	})
	return a.printStopped(records, err)
}

// stopOne asks the session's own process to end it.
func stopOne(ctx context.Context, d contract.SessionDetail, grace time.Duration) (contract.SessionRecord, error) {
	if d.Record.State.Terminal() {
		return d.Record, nil
	}
	ctx, cancel := context.WithTimeout(ctx, grace+stopBudget)
	defer cancel()
	c, err := client.Dial(d.Record.ControlSocketPath)
	if err == nil {
		var rec contract.SessionRecord
		if rec, err = c.Stop(ctx, grace); err == nil {
			return rec, nil
		}
	}
	if contract.CodeOf(err) == contract.SessionNotFound {
		return contract.SessionRecord{}, contract.Errorf(contract.SessionLost, "its realm is gone").
			WithCause(err).WithHint("'realm gc' puts away what it left")
	}
	return contract.SessionRecord{}, err
}

func (a *app) printStopped(records []*contract.SessionRecord, err error) error {
	done := []contract.SessionRecord{}
	for _, rec := range records {
		if rec != nil {
			done = append(done, *rec)
		}
	}
	if a.json {
		a.answered = true
		if jerr := a.printJSON(done); jerr != nil {
			return jerr
		}
		return err
	}
	for _, rec := range done {
		if _, werr := fmt.Fprintln(a.Out, rec.SessionID); werr != nil {
			return outError(werr)
		}
	}
	return err
}
