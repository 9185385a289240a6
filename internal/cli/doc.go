// Package cli is the command line of realm: one file per command.
//
// Manners. What was asked for goes to standard output, everything else to
// standard error, where each line begins with "realm: ", lower case, without a
// final period; what to do next is a line of its own, "realm: hint: …". An
// error names the place (an argument's number, a file with line and column, a
// JSON pointer), never a value: a secret typed at the wrong place does not come
// back. Text of others is escaped before it reaches a terminal. Nothing waits
// for an answer unless a terminal is there to give it.
//
// Main is the only place where an error becomes text and an exit code.
package cli

//go:generate sh -c "go run ./errordoc >../../docs/errors.md"
