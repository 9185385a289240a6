package policy

import (
	"path"
	"strings"
)

// ShellForm reports whether argv is a shell, by its name or behind programs
// that run another one. It judges argv alone: a script that names a shell in
// its first line, or a program that calls one, is for the container to hold.
// What is too long or too odd to follow counts as a shell.
func ShellForm(argv []string) bool {
	w := walk(argv)
	return w.shell || w.gaveUp
}

// walkBudget bounds the arguments looked at, over all readings of an argv.
const walkBudget = 1 << 18

// walker follows every way in which an argv can run a command.
type walker struct {
	commands [][]string
	shell    bool
	gaveUp   bool
	budget   int
}

func walk(argv []string) *walker {
	w := &walker{budget: walkBudget}
	w.argv(argv)
	return w
}

// argv follows one argument vector: each place where a command may start is
// looked at once.
func (w *walker) argv(argv []string) {
	if len(argv) == 0 {
		return
	}
	seen := make([]bool, len(argv))
	next := []int{0}
	for len(next) > 0 {
		at := next[len(next)-1]
		next = next[:len(next)-1]
		if at >= len(argv) || seen[at] {
			continue
		}
		seen[at] = true
		if !w.spend(1) {
			return
		}
		w.commands = append(w.commands, argv[at:])
		name := programName(argv[at])
		if isShellName(name) {
			w.shell = true
		}
		if l, ok := launcherOf(name); ok {
			r := reading{w: w, l: l, argv: argv, name: at}
			r.read()
			next = append(next, r.starts...)
		}
	}
}

// spend takes n from the budget; false says that it is used up.
func (w *walker) spend(n int) bool {
	if w.budget -= n; w.budget < 0 {
		w.gaveUp = true
	}
	return !w.gaveUp
}

// programName is the name by which a program is known.
func programName(arg string) string {
	if arg == "" {
		return ""
	}
	return strings.ToLower(path.Base(arg))
}

// isShellName reports whether a lower-case program name is a shell's, with or
// without a version: bash, bash5, bash-5.2, zsh-static.
func isShellName(name string) bool {
	name = strings.TrimSuffix(name, "-static")
	return isShell(name) || isShell(strings.TrimRight(strings.TrimRight(name, ".0123456789"), "-_."))
}
