package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"realm.dev/contract"
)

// printJSON writes v as one indented document on standard output.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return contract.AsError(err)
	}
	_, err := a.Out.Write(harmlessJSON(b.Bytes()))
	return outError(err)
}

// harmlessJSON escapes the characters of a JSON document that encoding/json
// leaves as they are and that a terminal would act on (C1 controls, DEL,
// bidirectional overrides). They can stand in strings only, so the value stays
// the same.
func harmlessJSON(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for len(doc) > 0 {
		r, n := utf8.DecodeRune(doc)
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			out = append(out, doc[:n]...)
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
		doc = doc[n:]
	}
	return out
}

// outError is err of a write to standard output as an error with a code.
func outError(err error) error {
	if err == nil {
		return nil
	}
	return contract.Errorf(contract.LimitExceeded, "standard output could not be written").WithCause(err)
}

// ordinal names a place in a list: people count from one.
func ordinal(n int) string { return strconv.Itoa(n) }
