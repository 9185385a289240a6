package cli

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/realm"
)

func newRm(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "rm ID… | --all",
		Short: "Remove what is kept of sessions that are over",
		Long: `rm deletes the record, the journal and the kept output of sessions that are over.
A session that runs is refused: stop it first.`,
		Args: func(cmd *cobra.Command, args []string) error { return idsOrAll(cmd, args, all) },
		RunE: func(_ *cobra.Command, args []string) error { return a.rm(args) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove every session that is over")
	return cmd
}

func (a *app) rm(names []string) error {
	dirs, list, err := a.listSessions()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if list, err = findSessions(list, names); err != nil {
			return err
		}
	} else {
		list = slices.DeleteFunc(list, func(d contract.SessionDetail) bool { return !d.Record.State.Terminal() })
	}
	removed := make([]bool, len(list))
	err = a.forEach(list, func(i int, d contract.SessionDetail) error {
		err := realm.Remove(dirs, d.Record.SessionID)
		removed[i] = err == nil
		return err
	})
	return a.printRemoved(list, removed, err)
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
