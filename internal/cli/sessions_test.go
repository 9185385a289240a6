package cli

import (
	"strings"
	"testing"
	"time"

	"realm.dev/contract"
)

func session(id string, state contract.State) contract.SessionDetail {
	return contract.SessionDetail{Record: contract.SessionRecord{SessionID: id, State: state}}
}

func TestFindSession(t *testing.T) {
	list := []contract.SessionDetail{
		session("s-ab", contract.Ready), session("s-abc", contract.Ready), session("s-b", contract.Stopped),
	}
	for _, tt := range []struct{ name, give, want string }{
		{"whole", "s-b", "s-b"},
		{"whole-before-abbreviated", "s-ab", "s-ab"},
		{"abbreviated", "s-abc", "s-abc"},
		{"ambiguous", "s-a", ""},
		{"ambiguous-all", "s-", ""},
		{"none", "x", ""},
		{"empty", "", ""},
		{"longer", "s-bb", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := findSession(list, tt.give, 1)
			if got.Record.SessionID != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("%q, %v, want %q", got.Record.SessionID, err, tt.want)
			}
			if err != nil && contract.CodeOf(err) != contract.SessionNotFound {
				t.Errorf("code %s", contract.CodeOf(err))
			}
		})
	}
}

func TestSeveralNamesOfOneSession(t *testing.T) {
	list := []contract.SessionDetail{session("s-ab", contract.Ready), session("s-b", contract.Stopped)}
	got, err := findSessions(list, []string{"s-b", "s-a", "s-ab"})
	if err != nil || len(got) != 2 {
		t.Errorf("%d sessions, %v, want 2", len(got), err)
	}
}

// What a session could choose is shown, not obeyed.
func TestSessionsAreHarmlessOnATerminal(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := session("s-a", contract.Failed)
	d.CreatedAt = now.Add(-time.Hour)
	d.Record.WorkspaceRoot = "/tmp/a\x1b[2J\nb\u202e"
	d.Outcome = &contract.Outcome{Source: contract.FromRealm, Signal: "SIG\x1bX", Reason: "r\x1b\n"}
	d.Probes = []contract.Probe{{Name: "p\x1b", Detail: "d\n"}}
	d.Conditions = []contract.Condition{{Type: "T", Message: "m\x1b]0;\a"}}
	d.HeldBack = []contract.HeldBack{{Path: "h\x1b\nx", Reason: "r"}}
	d.Degraded = []string{"w\x1b"}
	var table strings.Builder
	if err := printSessions(&table, []contract.SessionDetail{d}, now); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{table.String(), describe(d)} {
		if strings.ContainsAny(text, "\x1b\a\u202e") {
			t.Errorf("acts on a terminal: %q", text)
		}
	}
	if n := strings.Count(table.String(), "\n"); n != 2 {
		t.Errorf("%d lines in the table:\n%s", n, table.String())
	}
	if !strings.Contains(table.String(), "About an hour") || !strings.Contains(table.String(), `/tmp/a\x1b[2J\x0ab\u202e`) {
		t.Errorf("the table lacks something:\n%s", table.String())
	}
}

func TestStateOf(t *testing.T) {
	three := 3
	for _, tt := range []struct {
		state   contract.State
		outcome *contract.Outcome
		want    string
	}{
		{contract.Ready, nil, "ready"},
		{contract.Stopping, &contract.Outcome{ExitCode: &three}, "stopping"},
		{contract.Stopped, &contract.Outcome{ExitCode: &three}, "stopped (3)"},
		{contract.Stopped, &contract.Outcome{Signal: "SIGKILL"}, "stopped (SIGKILL)"},
		{contract.Failed, &contract.Outcome{Error: contract.Errorf(contract.StartupTimeout, "x")}, "failed (STARTUP_TIMEOUT)"},
		{contract.Stopped, &contract.Outcome{}, "stopped"},
	} {
		d := session("s", tt.state)
		d.Outcome = tt.outcome
		if got := stateOf(d); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
