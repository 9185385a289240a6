package cli

import (
	"io"
	"os"

	"realm.dev/internal/term"
)

// Streams are the standard streams of the program. Output that was asked for
// goes to Out, everything else to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// System returns the streams of this process.
func System() Streams { return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr} }

// show returns where to write text of others that was not asked for byte by
// byte: on a terminal it is made harmless, a file or pipe gets it as it is.
// The second result must be called when all is written.
func show(w io.Writer) (io.Writer, func() error) {
	if _, ok := term.IsTerminal(w); !ok {
		return w, func() error { return nil }
	}
	e := term.NewEscaper(w)
	return e, e.Flush
}
