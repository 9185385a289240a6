package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/internal/term"
)

// status is the verdict of one check.
type status string

const (
	statusOK   status = "ok"
	statusWarn status = "warn" // sessions run, weaker or slower than they could
	statusFail status = "fail" // no session runs
)

// finding is what one check found. Fix is what to do, when there is something.
type finding struct {
	Name   string `json:"name"`
	Status status `json:"status"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

func good(name, format string, args ...any) finding {
	return finding{Name: name, Status: statusOK, Detail: fmt.Sprintf(format, args...)}
}

func warn(name, fix, format string, args ...any) finding {
	return finding{Name: name, Status: statusWarn, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

func bad(name, fix, format string, args ...any) finding {
	return finding{Name: name, Status: statusFail, Detail: fmt.Sprintf(format, args...), Fix: fix}
}

// diagnosis is the document that `realm doctor --json` prints.
type diagnosis struct {
	OK       bool      `json:"ok"` // sessions can run
	Findings []finding `json:"findings"`
}

// engineBudget bounds the question whether an engine answers.
const engineBudget = 20 * time.Second

func newDoctor(a *app) *cobra.Command {
	var podman string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say whether sessions can run here, and how to fix what is missing",
		Long: `doctor looks at this machine and says of everything that a session needs whether
it is there, and what to do where it is not. It changes nothing. It ends with 0
when sessions can run, 1 otherwise.`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			d := a.diagnose(cmd.Context(), thisHost(), podman)
			if err := a.printDiagnosis(d); err != nil {
				return err
			}
			if !d.OK {
				return exitWith(contract.ExitDefect)
			}
			return nil
		},
	}
	podmanFlag(cmd, &podman)
	return cmd
}

// diagnose runs every check.
func (a *app) diagnose(ctx context.Context, h host, podman string) diagnosis {
	var d diagnosis
	add := func(fs ...finding) { d.Findings = append(d.Findings, fs...) }
	info, engine := a.checkEngine(ctx, podman)
	add(engine...)
	add(checkKernel(h), checkUserNamespaces(h), checkSeccomp(h), checkCgroups(h))
	if info != nil {
		add(checkLimits(*info))
	}
	if !h.rootful(info) {
		add(checkSubIDs(h, "subuid"), checkSubIDs(h, "subgid"), checkIDMapTool(h, "newuidmap"), checkIDMapTool(h, "newgidmap"), checkRuntimeDir(h))
	} else {
		add(checkIDMapping(h))
	}
	add(checkSELinux(h), checkInit(), checkDirs())
	d.OK = true
	for _, f := range d.Findings {
		d.OK = d.OK && f.Status != statusFail
	}
	return d
}

func (a *app) printDiagnosis(d diagnosis) error {
	if a.json {
		return a.printJSON(d)
	}
	for _, f := range d.Findings {
		if err := printFinding(a.Out, f); err != nil {
			return outError(err)
		}
	}
	verdict := "sessions can run here\n"
	if !d.OK {
		verdict = "no session can run here before what failed is fixed\n"
	}
	_, err := io.WriteString(a.Out, verdict)
	return outError(err)
}

// printFinding says the status in words: colour alone would tell some nothing.
func printFinding(w io.Writer, f finding) error {
	if _, err := fmt.Fprintf(w, "%-5s %-16s %s\n", f.Status, f.Name, term.Escape(f.Detail)); err != nil {
		return err
	}
	if f.Fix == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "%-22s fix: %s\n", "", term.Escape(f.Fix))
	return err
}
