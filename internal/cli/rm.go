package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/realm"
)

func newRm(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm ID…",
		Short: "Remove what is kept of sessions that are over",
		Long: `rm deletes the record, the journal and the kept output of sessions that are over.
A session that runs is refused: stop it first.`,
		Args: takes(1, -1, "a session's id"),
		RunE: func(_ *cobra.Command, args []string) error {
			dirs, list, err := a.listSessions()
			if err != nil {
				return err
			}
			list, err = findSessions(list, args)
			if err != nil {
				return err
			}
			removed := make([]bool, len(list))
			err = a.forEach(list, func(i int, d contract.SessionDetail) error {
				err := realm.Remove(dirs, d.Record.SessionID)
				removed[i] = err == nil
				return err
			})
			return a.printRemoved(list, removed, err)
		},
	}
}

func (a *app) printRemoved(list []contract.SessionDetail, removed []bool, err error) error {
	ids := []string{}
	for i, d := range list {
		if removed[i] {
			ids = append(ids, d.Record.SessionID)
		}
	}
	if a.json {
		a.answered = true
		if jerr := a.printJSON(ids); jerr != nil {
			return jerr
		}
		return err
	}
	for _, id := range ids {
		if _, werr := fmt.Fprintln(a.Out, id); werr != nil {
			return outError(werr)
		}
	}
	return err
}
