package control

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"realm.dev/contract"
	"realm.dev/realm/control/controltest"
)

const page = "../../docs/control-socket.md"

// example is one command of a page and what it prints.
type example struct{ command, want string }

// readExamples returns the commands in the console blocks of a page: a line
// that begins with "$ ", with the lines after it that begin with "> ".
func readExamples(t *testing.T, path string) []example {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	var examples []example
	inside := false
	for line := range strings.Lines(string(b)) {
		command, isCommand := strings.CutPrefix(line, "$ ")
		more, isMore := strings.CutPrefix(line, "> ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```console\n"
		case !inside:
		case isCommand:
			examples = append(examples, example{command: command})
		case isMore:
			examples[len(examples)-1].command += more
		default:
			examples[len(examples)-1].want += line
		}
	}
	return examples
}

// The page says what curl prints; here it does.
func TestDocumentedExamples(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	examples := readExamples(t, page)
	if len(examples) < 8 {
		t.Fatalf("the page has %d examples", len(examples))
	}
	for _, example := range examples {
		t.Run("", func(t *testing.T) {
			session := controltest.New(contract.Ready)
			session.OnCall = echo
			path, _ := serveFake(t, session, Options{Linger: time.Minute})
			if strings.Contains(example.command, "ndjson") && strings.Contains(example.command, "/v1/record") {
				go stopWhenWatched(t.Context(), session)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "bash", "-c", example.command)
			cmd.Env = []string{"SOCK=" + path, "PATH=" + os.Getenv("PATH")}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("%v: %s", err, stderr.String())
			}
			if diff := cmp.Diff(example.want, string(out)); diff != "" {
				t.Errorf("%s%s", example.command, diff)
			}
		})
	}
}

// Every path that the server knows is on the page.
func TestEveryResourceIsDocumented(t *testing.T) {
	b, err := os.ReadFile(page)
	must(t, err)
	for path, methods := range new(Server).resources() {
		for method := range methods {
			if request := "`" + method + " " + path + "`"; !bytes.Contains(b, []byte(request)) {
				t.Errorf("%s is not on the page", request)
			}
		}
	}
}

// echo is a tool call of the page's programs.
func echo(_ context.Context, id string, call *contract.ToolCall, out controltest.Output) contract.ToolResult {
	result := controltest.Exited(id, 0)
	text := strings.Join(call.Exec.Argv[1:], " ") + "\n"
	result.Exec.Stdout.Head, result.Exec.Stdout.Bytes, result.Exec.DurationMs = text, int64(len(text)), 1
	if out != nil {
		out("stdout", 0, []byte(text))
	}
	return result
}

func stopWhenWatched(ctx context.Context, session *controltest.Session) {
	for session.Watchers() < 2 && // the server is one
		ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	_, _ = session.Stop(ctx, 0)
}
