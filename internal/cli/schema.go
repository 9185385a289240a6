package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/schemas"
)

func newSchema(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "List, print and apply the schemas of realm's documents",
		Args:  unknownCommand,
		RunE:  needCommand,
	}
	cmd.AddCommand(newSchemaList(a), newSchemaPrint(a), newSchemaValidate(a))
	return cmd
}

func newSchemaList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the names of the schemas",
		Args:  takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			names := schemas.Names()
			if a.json {
				return a.printJSON(names)
			}
			for _, name := range names {
				if _, err := fmt.Fprintln(a.Out, name); err != nil {
					return outError(err)
				}
			}
			return nil
		},
	}
}

func newSchemaPrint(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "print NAME",
		Short:             "Print a schema, byte for byte as it is frozen",
		Args:              takes(1, 1, "the schema's name"),
		ValidArgsFunction: completeSchema,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := knownSchema(args[0]); err != nil {
				return err
			}
			text, err := schemas.Read(args[0])
			if err != nil {
				return contract.AsError(err)
			}
			_, err = a.Out.Write(text)
			return outError(err)
		},
	}
}

func newSchemaValidate(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "validate NAME FILE…|-",
		Short: "Say whether documents match a schema",
		Long: `validate reads each file, or standard input for -, by the same decoder that realm
itself uses, and ends with 0 when all are valid and with 2 when one is not. A
policy may be YAML. With --json it prints {"valid", "violations": [{"pointer",
"rule"}]}; with several files each violation has "file" too.`,
		Args:              takes(2, -1, "the schema's name or the file"),
		ValidArgsFunction: completeSchema,
		RunE: func(_ *cobra.Command, args []string) error {
			name, files := args[0], args[1:]
			if err := knownSchema(name); err != nil {
				return err
			}
			return a.validate(new(verdict), files, func(path string) (document, error) {
				d, err := a.readDocument(path)
				if name != policySchema {
					d.format = contract.JSON
				}
				return d, err
			}, func(d document) error { return matches(name, d) })
		},
	}
}

// policySchema names the only document that may be YAML.
const policySchema = "policy"

// matches decodes a document of a schema.
func matches(name string, d document) error {
	if name == policySchema {
		_, err := loadPolicy(d)
		return err
	}
	err := contract.Validate(name, d.data)
	if errors.Is(err, fs.ErrNotExist) {
		return usagef("documents of this schema are written by realm and not read")
	}
	return locate(d, err)
}

func completeSchema(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return schemas.Names(), cobra.ShellCompDirectiveNoFileComp
}

func knownSchema(name string) error {
	names := schemas.Names()
	if slices.Contains(names, name) {
		return nil
	}
	e := usagef("no schema has this name")
	if near := nearest(name, names); near != "" {
		e = usagef("no schema has this name; is %s meant?", near)
	}
	return e.withHint("see 'realm schema list'")
}

// maxDocument bounds every document that is read to be validated.
const maxDocument = contract.MaxCallBytes

// readDocument reads any file, a pipe included, or standard input for "-".
func (a *app) readDocument(path string) (document, error) {
	if path == "-" {
		data, err := readBounded(a.In, maxDocument)
		return document{"standard input", data, formatOf("", data)}, err
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return document{}, contract.Errorf(contract.PathNotFound, "there is no such file").WithCause(err)
	case err != nil:
		return document{}, contract.Errorf(contract.PathRefused, "a file cannot be opened").WithCause(err)
	}
	defer f.Close()
	data, err := readBounded(f, maxDocument)
	return document{path, data, formatOf(path, data)}, err
}

// verdict is the document that `schema validate` and `policy check` print.
type verdict struct {
	Valid      bool              `json:"valid"`
	Violations []placedViolation `json:"violations"`
	More       int               `json:"more,omitempty"` // violations beyond those listed
	// Unenforceable is what a valid policy asks for and this build cannot give;
	// `realm run` refuses it.
	Unenforceable []contract.Violation `json:"unenforceable,omitempty"`
}

// placedViolation tells the file as well, when there are several.
type placedViolation struct {
	contract.Violation
	File string `json:"file,omitempty"`
}

// validate reads and checks each file, tells what is wrong in all of them, and
// ends with 2 when anything is.
func (a *app) validate(v *verdict, files []string, read func(string) (document, error), check func(document) error) error {
	v.Valid, v.Violations = true, []placedViolation{}
	for i, path := range files {
		d, err := read(path)
		if err == nil {
			err = check(d)
		}
		if err == nil {
			continue
		}
		e, ok := errors.AsType[*contract.Error](err)
		if !ok || len(e.Violations) == 0 && e.Code != contract.LimitExceeded {
			return named(i, len(files), err)
		}
		v.take(path, len(files) > 1, e)
		report(a.Err, err)
	}
	if a.json {
		if err := a.printJSON(v); err != nil {
			return err
		}
	} else if v.Valid {
		if _, err := io.WriteString(a.Out, "valid\n"); err != nil {
			return outError(err)
		}
	}
	if !v.Valid {
		return exitWith(contract.ExitUsage)
	}
	return nil
}

// take adds what is wrong with one file.
func (v *verdict) take(path string, several bool, e *contract.Error) {
	v.Valid = false
	file := ""
	if several {
		file = path
	}
	if len(e.Violations) == 0 {
		v.Violations = append(v.Violations, placedViolation{contract.Violation{Rule: e.Detail}, file})
	}
	for _, w := range e.Violations {
		v.Violations = append(v.Violations, placedViolation{w, file})
	}
	v.More += e.More
}

// named says which of several files err is about. One that could not be read is
// not named: the name may be anything.
func named(i, files int, err error) error {
	if _, usage := errors.AsType[*usageError](err); usage || files < 2 {
		return err
	}
	told := *contract.AsError(err)
	told.Detail = "file " + ordinal(i+1) + ": " + told.Detail
	return &told
}
