package policy

import (
	"slices"
	"strings"
)

// reading follows one launcher through its options to the commands it may run.
// An option that is not in the grammar may take a value or not: both readings
// are followed.
type reading struct {
	w      *walker
	l      launcher
	argv   []string
	name   int   // where the launcher's own name stands
	starts []int // where a command may start

	seen   []bool // option places that were read
	next   []int  // option places still to read
	asArgv bool   // an option of argvOnly is there
	odd    bool   // an option is not in the grammar
}

func (r *reading) read() {
	switch {
	case r.l.loose:
		r.anywhere()
	case r.l.after != "":
		r.following()
	default:
		r.seen = make([]bool, len(r.argv)+1)
		r.next = []int{r.name + 1}
		for len(r.next) > 0 {
			at := r.next[len(r.next)-1]
			r.next = r.next[:len(r.next)-1]
			if at > len(r.argv) || r.seen[at] {
				continue
			}
			if !r.w.spend(1) {
				return
			}
			r.seen[at] = true
			r.option(at)
		}
		if r.l.text && (!r.asArgv || r.odd) {
			r.w.shell = true
		}
	}
}

// anywhere takes every argument that is a shell's name for the command.
func (r *reading) anywhere() {
	for i := r.name + 1; i < len(r.argv) && r.w.spend(1); i++ {
		if isShellName(programName(r.argv[i])) {
			r.w.shell = true
		}
	}
}

// following finds the commands behind words like -exec.
func (r *reading) following() {
	for i := r.name + 1; i < len(r.argv) && r.w.spend(1); i++ {
		word, value, attached := strings.Cut(r.argv[i], "=")
		if !hasWord(r.l.after, word) {
			continue
		}
		if attached {
			r.rest(strings.Fields(value), i+1)
		} else {
			r.starts = append(r.starts, i+1)
		}
	}
}

// option reads one argument where an option or the first operand may stand.
func (r *reading) option(at int) {
	if at == len(r.argv) {
		r.operand(at)
		return
	}
	switch arg := r.argv[at]; {
	case arg == "--":
		r.operand(at + 1)
	case arg == "-" && r.l.assigns, r.l.multi && strings.HasPrefix(arg, "-") && !strings.Contains(arg, "="):
		r.next = append(r.next, at+1)
	case strings.HasPrefix(arg, "--"):
		r.longOption(at, arg)
	case strings.HasPrefix(arg, "-") && arg != "-":
		r.shortOptions(at, arg[1:])
	default:
		r.operand(at)
	}
}

// longOption reads --name or --name=value. getopt takes any unambiguous
// beginning of a name.
func (r *reading) longOption(at int, arg string) {
	word, value, attached := strings.Cut(arg, "=")
	if r.l.multi {
		r.rest([]string{value}, at+1) // --coreutils-prog=NAME
		return
	}
	flag, valued := false, false
	for option := range strings.FieldsSeq(r.l.long) {
		name, takesValue := strings.CutSuffix(option, ":")
		exact := name == word[2:]
		if !strings.HasPrefix(name, word[2:]) {
			continue
		}
		if exact {
			flag, valued = false, false
		}
		r.note("--"+name, value, attached, at)
		flag = flag || !takesValue
		valued = valued || takesValue
		if exact {
			break
		}
	}
	r.odd = r.odd || !flag && !valued
	r.advance(at, attached, flag || !valued, valued || !flag)
}

// shortOptions reads a bundle: -abc, with the value of c attached or next.
func (r *reading) shortOptions(at int, bundle string) {
	for i := range len(bundle) {
		rest := bundle[i+1:]
		kind, known := shortKind(r.l.short, bundle[i])
		r.note("-"+bundle[i:i+1], rest, rest != "", at)
		switch {
		case !known:
			// The rest may be a value as well as more options.
			r.odd = true
			r.advance(at, rest != "", true, true)
		case kind == 1:
			r.advance(at, rest != "", false, true)
			return
		case kind == 2:
			r.advance(at, true, true, false)
			return
		}
	}
	r.advance(at, false, true, false)
}

// shortKind looks an option up: 0 is a flag, 1 takes a value, 2 may have one attached.
func shortKind(grammar string, option byte) (kind int, known bool) {
	i := strings.IndexByte(grammar, option)
	if i < 0 || option == ':' {
		return 0, false
	}
	rest := grammar[i+1:]
	return len(rest) - len(strings.TrimLeft(rest, ":")), true
}

// note acts on options that start a shell, split a text or change the meaning.
func (r *reading) note(option, value string, attached bool, at int) {
	switch {
	case hasWord(r.l.shell, option):
		r.w.shell = true
	case hasWord(r.l.argvOnly, option):
		r.asArgv = true
	case hasWord(r.l.split, option):
		if attached {
			r.splitText(value, at+1)
		} else if at+1 < len(r.argv) {
			r.splitText(r.argv[at+1], at+2)
		}
	}
}

// advance goes to where the next option may stand.
func (r *reading) advance(at int, attached, flag, valued bool) {
	if attached || flag {
		r.next = append(r.next, at+1)
	}
	if !attached && valued {
		r.next = append(r.next, at+2)
	}
}

// operand reads from the first operand on.
func (r *reading) operand(at int) {
	for r.l.assigns && at < len(r.argv) && strings.Contains(r.argv[at], "=") && r.w.spend(1) {
		at++
	}
	least := at + r.l.operands
	if r.l.optional {
		least = at
	}
	for start := least; start <= at+r.l.operands; start++ {
		switch {
		case start >= len(r.argv):
			r.w.shell = r.w.shell || r.l.bare
		case hasWord(r.l.shell, r.argv[start]):
			r.w.shell = true
		default:
			r.starts = append(r.starts, start)
		}
	}
}

// splitText reads the text that env -S cuts into words: more arguments of env.
func (r *reading) splitText(text string, rest int) {
	if cut, ok := splitWords(text); ok {
		r.rest(append([]string{r.argv[r.name]}, cut...), rest)
	} else {
		r.w.shell = true
	}
}

// rest follows an argv that is made of words and the arguments from at on.
func (r *reading) rest(head []string, at int) {
	tail := r.argv[min(at, len(r.argv)):]
	if r.w.spend(len(head) + len(tail)) {
		r.w.argv(slices.Concat(head, tail))
	}
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}
