package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs/cli.md has a section for every command, and in it every flag; and no
// section for a command that does not exist.
func TestDocumentedCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		title, body, _ := strings.Cut(part, "\n")
		body, _, _ = strings.Cut(body, "\n## ")
		sections[title] = body
	}
	walk(newRoot(&app{}), func(cmd *cobra.Command) {
		body, ok := sections[cmd.CommandPath()]
		if !ok {
			t.Errorf("%s has no section", cmd.CommandPath())
			return
		}
		delete(sections, cmd.CommandPath())
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(body, "--"+f.Name) {
				t.Errorf("%s: --%s is not in its section", cmd.CommandPath(), f.Name)
			}
			if f.Shorthand != "" && f.Name != "help" && !strings.Contains(body, "`-"+f.Shorthand) {
				t.Errorf("%s: -%s is not in its section", cmd.CommandPath(), f.Shorthand)
			}
		})
	})
	for title := range sections {
		t.Errorf("there is no command %s", title)
	}
}

// Every command that does something says what in one line, lower in the help in
// more, and refuses arguments that it has no use for.
func TestCommandsAreComplete(t *testing.T) {
	walk(newRoot(&app{}), func(cmd *cobra.Command) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Args == nil {
			t.Errorf("%s takes any arguments", cmd.CommandPath())
		}
		if cmd.Run != nil || cmd.RunE == nil {
			t.Errorf("%s does not return its error", cmd.CommandPath())
		}
	})
}

// walk visits the commands that do something: not groups, topics and help.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	for _, c := range cmd.Commands() {
		switch {
		case c.HasSubCommands():
			walk(c, visit)
		case c.Runnable() && c.Name() != "help":
			visit(c)
		}
	}
}
