package cli

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError turns a mistake in the flags into a usageError that names the
// argument's place and, where there is one, the flag that was meant. What was
// typed is not repeated: it may be a secret at the wrong place.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	return a.describeFlagError(cmd, err).withHint("see '%s --help'", cmd.CommandPath())
}

func (a *app) describeFlagError(cmd *cobra.Command, err error) *usageError {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		text := "unknown flag" + a.place(e.GetSpecifiedName())
		if near := nearest(e.GetSpecifiedName(), flagNames(cmd)); near != "" {
			text += "; is --" + near + " meant?"
		}
		return usagef("%s", text)
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s needs a value", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s does not take this value; it wants %s", e.GetFlag().Name, wanted(e.GetFlag().Value))
	}
	return usagef("a flag is badly formed")
}

// wanted describes what a flag takes. Types of ours say it themselves.
func wanted(v pflag.Value) string {
	switch v.Type() {
	case "bool":
		return "true or false"
	case "int", "int64", "uint":
		return "a whole number"
	case "duration":
		return "a time such as 1m30s"
	default:
		return v.Type()
	}
}

// place says at which argument of the command line the flag name stands.
func (a *app) place(name string) string {
	at := slices.IndexFunc(a.args, func(arg string) bool {
		arg, _, _ = strings.Cut(arg, "=")
		short := len(name) == 1 && strings.HasPrefix(arg, "-") && strings.Contains(arg, name)
		return short || arg == "--"+name
	})
	if at < 0 {
		return ""
	}
	return " at argument " + ordinal(at+1)
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return names
}

// unknownCommand refuses positional arguments where only a command can stand.
func unknownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := "unknown command"
	if near := nearest(args[0], commandNames(cmd)); near != "" {
		text += "; is '" + cmd.CommandPath() + " " + near + "' meant?"
	}
	return usagef("%s", text).withHint("see '%s --help'", cmd.CommandPath())
}

// needCommand is the RunE of a command that only groups others.
func needCommand(cmd *cobra.Command, _ []string) error {
	return usagef("which %s command?", cmd.Name()).
		withHint("one of %s; see '%s --help'", strings.Join(commandNames(cmd), ", "), cmd.CommandPath())
}

func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	return names
}

// takes returns a validator for a number of arguments; most < 0 is no upper
// bound. What names them in the message.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usagef("%s is missing", what).withHint("usage: %s", cmd.UseLine())
		case most == 0 && len(args) > 0:
			return usagef("%s takes no arguments", cmd.CommandPath()).withHint("usage: %s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			return usagef("too many arguments").withHint("usage: %s", cmd.UseLine())
		}
		return nil
	}
}

// nearest returns the candidate that differs from s by a slip of the fingers,
// or "".
func nearest(s string, candidates []string) string {
	best, at := "", 3
	for _, c := range candidates {
		if d := distance(s, c); d < at && d < len(c) {
			best, at = c, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
