package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"realm.dev/internal/term"
	"realm.dev/realm"
)

// collection is the document that `realm gc --json` prints.
type collection struct {
	DryRun    bool             `json:"dryRun"`
	Leftovers []realm.Leftover `json:"leftovers"`
}

func newGC(a *app) *cobra.Command {
	var dry bool
	var podman string
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Put away what dead sessions left behind",
		Long: `gc looks for containers, sockets, mounts and directories of sessions whose realm
was killed, and removes them. Such a session becomes failed; its record stays
until 'realm rm'. Every 'realm run' does the same before it starts.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return interruptible(cmd.Context(), func(ctx context.Context) error { return a.gc(ctx, podman, dry) })
		},
	}
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	podmanFlag(cmd, &podman)
	return cmd
}

func (a *app) gc(ctx context.Context, podman string, dry bool) error {
	show := newProgress(a.Err)
	defer show.done()
	m, err := a.openWith(ctx, realm.Options{KeepDead: true}, podman, show)
	if err != nil {
		return err
	}
	defer m.close()
	show.step("looking for what dead sessions left")
	found, err := m.Sweep(ctx, dry)
	show.done()
	if perr := a.printCollection(collection{dry, append([]realm.Leftover{}, found...)}); err == nil {
		err = perr
	}
	return err
}

func (a *app) printCollection(c collection) error {
	if a.json {
		a.answered = true
		return a.printJSON(c)
	}
	for _, l := range c.Leftovers {
		if _, err := fmt.Fprintf(a.Out, "%s\t%s\t%s\n", l.Session, l.Kind, term.Escape(l.What)); err != nil {
			return outError(err)
		}
	}
	return nil
}
