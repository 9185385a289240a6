package cli

import "github.com/spf13/cobra"

// topics are help pages that belong to no command.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit code tells", Long: exitCodes},
		{Use: "environment", Short: "The environment variables that realm reads", Long: environment},
	}
}

const exitCodes = `'realm run' and 'realm exec' end with the exit code of the command that they ran.
Otherwise:

  0     done
  1     a defect of realm
  2     the command line, or a document, is not valid
  3     refused by the policy or by a person
  4     no such session, or no such file
  5     the session, or the file, is in another state than needed
  10    'realm policy explain': somebody would be asked
  124   a deadline passed
  125   realm or Podman failed
  126   the command could not be executed
  127   the command was not found
  128+n a signal ended the command, or this program (130 is Ctrl-C)

A command may use these codes too: 'realm run --json' and 'realm exec --json' say
whose code it was. 'realm doctor' ends with 1 when no session can run here.`

const environment = `  CONTAINER_HOST    the Podman service to use, when --podman is not given
  NO_COLOR          realm never uses colour; the variable changes nothing
  XDG_CONFIG_HOME   policies are in realm/ below it (else ~/.config)
  XDG_RUNTIME_DIR   sockets are in realm/ below it (else /tmp/realm-UID)
  XDG_STATE_HOME    sessions are in realm/ below it (else ~/.local/state)

No variable weakens a session. Programs in a session see none of this process's
environment except what the policy's env, or -e NAME, names.`

// newHelp is `realm help`, which must not repeat what it does not know.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:                "help [command]",
		Short:              "Show the help of a command or topic",
		DisableFlagParsing: false,
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), args)
			}
			return target.Help()
		},
	}
}
