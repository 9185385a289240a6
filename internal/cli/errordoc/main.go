// Command errordoc prints docs/errors.md, made from the error catalogue.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"realm.dev/contract"
	"realm.dev/schemas"
)

func main() {
	text, err := page()
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "errordoc:", err)
		os.Exit(1)
	}
}

const (
	head = `# Errors

<!-- Generated from schemas/v1/errors.json by internal/cli/errordoc. Do not edit. -->

Every failure of realm has one of these codes, on the command line, on the
control socket and in a tool result. The reason is fixed; what happened is in the
error's detail, what to do next in its hint. No field ever holds a value of the
input: a secret at the wrong place does not come back.

| code | what it says | class | HTTP | exit |
|---|---|---|---|---|
`
	tail = `
An error is a JSON object: ` + "`code`, `reason`" + `, and where they help ` + "`detail`, `hint`,\n`errno`, `violations`" + ` (a list of ` + "`pointer` and `rule`" + `, sorted by pointer, at most 32) and
` + "`more`" + ` (how many violations are not listed). On the command line an error reads

    realm: SCHEMA_INVALID: a document does not match its schema
    realm:   /limits/pids: is below its minimum
    realm: hint: …

and violations in a file read ` + "`realm: FILE:LINE:COLUMN: POINTER: RULE`" + `. The exit codes of
a command that realm ran pass through; ` + "`realm help exit-codes`" + ` lists the others.
`
)

// page is the whole document.
func page() ([]byte, error) {
	data, err := schemas.Errors()
	if err != nil {
		return nil, err
	}
	var rows []contract.Row
	if err := json.Unmarshal(data, &rows); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(head)
	for _, r := range rows {
		exit := fmt.Sprint(r.Exit)
		if r.ExitNotFound != 0 {
			exit += fmt.Sprintf(", %d when it is not there", r.ExitNotFound)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d | %s |\n", r.Code, r.Reason, r.Class, r.HTTP, exit)
	}
	b.WriteString(tail)
	return []byte(b.String()), nil
}
