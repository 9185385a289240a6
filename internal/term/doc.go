// Package term is what realm does to a person's terminal: raw mode that is
// undone on every way out, its size, and text of others made harmless before
// it is shown.
package term
