package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"realm.dev/container"
	"realm.dev/internal/buildinfo"
	"realm.dev/realm"
	"realm.dev/schemas"
)

// versionInfo is the document that `realm version --json` prints.
type versionInfo struct {
	buildinfo.Info
	Schemas string      `json:"schemas"` // the version of the frozen documents
	Engine  *engineName `json:"engine"`  // null when none answers
}

type engineName struct {
	Podman         string `json:"podman"`
	Runtime        string `json:"runtime"`
	RuntimeVersion string `json:"runtimeVersion"`
	Rootless       bool   `json:"rootless"`
}

// versionBudget bounds the question to the engine: the answer is a courtesy.
const versionBudget = 3 * time.Second

func newVersion(a *app) *cobra.Command {
	var podman string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of realm, its schemas and the engine",
		Args:  takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versionInfo{Info: buildinfo.Read(), Schemas: schemas.Version, Engine: a.askEngine(cmd.Context(), podman)}
			if a.json {
				return a.printJSON(v)
			}
			return a.printVersion(v)
		},
	}
	podmanFlag(cmd, &podman)
	return cmd
}

func (a *app) askEngine(ctx context.Context, url string) *engineName {
	ctx, cancel := context.WithTimeout(ctx, versionBudget)
	defer cancel()
	dirs, err := realm.DefaultDirs()
	if err != nil {
		return nil
	}
	engine, err := a.openEngine(ctx, dirs, url)
	if err != nil {
		return nil
	}
	defer func() { _ = engine.Close() }()
	var info container.Info
	if info, err = engine.Version(ctx); err != nil {
		return nil
	}
	return &engineName{info.Version, info.Runtime, info.RuntimeVersion, info.Rootless}
}

func (a *app) printVersion(v versionInfo) error {
	text := fmt.Sprintf("realm %s (%s %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
	if v.Commit != "" {
		text += fmt.Sprintf("commit %s %s\n", v.Commit, v.Date)
	}
	text += "schemas " + v.Schemas + "\n"
	if e := v.Engine; e != nil {
		text += fmt.Sprintf("podman %s, %s %s\n", e.Podman, e.Runtime, e.RuntimeVersion)
	} else {
		text += "podman: no service answers (see 'realm doctor')\n"
	}
	_, err := io.WriteString(a.Out, text)
	return outError(err)
}
