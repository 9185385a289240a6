// Command realm runs programs in sessions; see package cli.
package main

import (
	"os"

	"realm.dev/internal/cli"
	"realm.dev/internal/term"
	"realm.dev/realm/workspace"
)

func main() {
	// This program is also its own helper: it runs itself to act in another
	// namespace, or to outlive a crash.
	switch args := os.Args[1:]; {
	case len(args) > 0 && args[0] == workspace.HelperArg:
		os.Exit(workspace.HelperMain(args[1:]))
	case term.GuardMain(args):
		return
	}
	os.Exit(cli.Main(os.Args[1:], cli.System()))
}
