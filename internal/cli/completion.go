package cli

import (
	"io"

	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash": func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"fish": func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"zsh":  (*cobra.Command).GenZshCompletion,
	}
	return &cobra.Command{
		Use:       "completion bash|fish|zsh",
		Short:     "Print a script that completes realm's commands",
		Example:   "  source <(realm completion bash)",
		Args:      takes(1, 1, "the shell"),
		ValidArgs: []string{"bash", "fish", "zsh"},
		RunE: func(cmd *cobra.Command, args []string) error {
			generate, ok := shells[args[0]]
			if !ok {
				return usagef("no completion for this shell").withHint("one of bash, fish, zsh")
			}
			return outError(generate(cmd.Root(), a.Out))
		},
	}
}
