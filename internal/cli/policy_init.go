package cli

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"realm.dev/contract"
	"realm.dev/policy"
)

func newPolicyInit(a *app) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "init TEMPLATE",
		Short: "Write a policy to start from",
		Long: "init prints a policy for one use, with a comment per line, for you to read and\nchange. Templates:\n\n" + templateList() + `
Where the tool lies outside of /usr, the policy mounts its directories read-only.
A file that exists is not overwritten.`,
		Example:   "  realm policy init go -o ~/.config/realm/go.yaml",
		Args:      takes(1, 1, "the template"),
		ValidArgs: templateNames(),
		RunE: func(_ *cobra.Command, args []string) error {
			t, ok := policy.FindTemplate(args[0])
			if !ok {
				return unknownTemplate(args[0])
			}
			return a.writePolicy(output, t.Render(toolDirs(t.Name)))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "write to this new `FILE` instead of standard output")
	return cmd
}

func templateList() string {
	var b strings.Builder
	for _, t := range policy.Templates() {
		b.WriteString("  " + t.Name + strings.Repeat(" ", max(8-len(t.Name), 1)) + t.Title + "\n")
	}
	return b.String()
}

func templateNames() (names []string) {
	for _, t := range policy.Templates() {
		names = append(names, t.Name)
	}
	return names
}

func unknownTemplate(name string) error {
	text := "no template has this name"
	if near := nearest(name, templateNames()); near != "" {
		text += "; is " + near + " meant?"
	}
	return usagef("%s", text).withHint("one of %s", strings.Join(templateNames(), ", "))
}

// writePolicy writes a file that did not exist, for this user only to write.
func (a *app) writePolicy(path string, text []byte) error {
	if path == "" {
		_, err := a.Out.Write(text)
		return outError(err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return contract.Errorf(contract.WriteConflict, "the file exists").WithHint("choose another name, or move it away")
	case errors.Is(err, fs.ErrNotExist):
		return contract.Errorf(contract.PathNotFound, "the directory of the file is not there").WithHint("mkdir -p it first")
	case err != nil:
		return contract.Errorf(contract.PathRefused, "the file cannot be made").WithCause(err)
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(path)
		return contract.Errorf(contract.LimitExceeded, "the file cannot be written").WithCause(err)
	}
	return nil
}

// programs are what the templates run, where it is not the template's name.
var programs = map[string]string{"python": "python3"}

// toolDirs are the directories outside of /usr where a template's program lies:
// that of the name in PATH and that of the file behind it. What a policy must
// not mount is left out.
func toolDirs(template string) []string {
	name := template
	if p, ok := programs[template]; ok {
		name = p
	}
	link, err := exec.LookPath(name)
	if err != nil {
		return nil
	}
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return nil
	}
	home, _ := os.UserHomeDir()
	var dirs []string
	for _, path := range []string{link, target} {
		dir := installation(filepath.Dir(path), home)
		usr := dir == "/usr" || strings.HasPrefix(dir, "/usr/") || dir == "/bin"
		if usr || slices.Contains(dirs, dir) || policy.MountPath(dir, false, policy.Host{Home: home}) != nil {
			continue
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// installation is the directory that holds bin and what goes with it. Shared
// ones (a home, ~/.local, the root) are not that.
func installation(dir, home string) string {
	parent := filepath.Dir(dir)
	if filepath.Base(dir) != "bin" || parent == "/" || parent == home || parent == filepath.Join(home, ".local") {
		return dir
	}
	return parent
}
