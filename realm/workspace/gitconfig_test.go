package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	set := func(section, sub, key, value string) configVar { return configVar{section, sub, key, value, true} }
	tests := map[string]struct {
		text string
		want []configVar
		bad  bool
	}{
		"plain":          {text: "[core]\n\tbare = false\n", want: []configVar{set("core", "", "bare", "false")}},
		"case":           {text: "[CORE]\nBare=x", want: []configVar{set("core", "", "bare", "x")}},
		"sub":            {text: `[branch "Main \"x\" \\"]` + "\nmerge = r", want: []configVar{set("branch", `Main "x" \`, "merge", "r")}},
		"old-sub":        {text: "[branch.Main]\nmerge = r", want: []configVar{set("branch", "main", "merge", "r")}},
		"same-line":      {text: "[core] bare = x # c", want: []configVar{set("core", "", "bare", "x")}},
		"boolean":        {text: "[core]\nbare\nb ; c\n", want: []configVar{{section: "core", key: "bare"}, {section: "core", key: "b"}}},
		"quotes":         {text: `[a]` + "\n" + `b = "x # y"  z ; c` + "\n", want: []configVar{set("a", "", "b", "x # y  z")}},
		"escapes":        {text: `[a]` + "\n" + `b = \t\n\\\"`, want: []configVar{set("a", "", "b", "\t\n\\\"")}},
		"continuation":   {text: "[a]\nb = x \\\n  y\n", want: []configVar{set("a", "", "b", "x   y")}},
		"crlf":           {text: "[a]\r\nb = x\r\n", want: []configVar{set("a", "", "b", "x")}},
		"empty":          {},
		"no-section":     {text: "b = x", bad: true},
		"open-quote":     {text: "[a]\nb = \"x\n", bad: true},
		"bad-escape":     {text: "[a]\nb = \\q", bad: true},
		"open-header":    {text: "[a", bad: true},
		"newline-header": {text: "[a \"x\ny\"]", bad: true},
		"nul":            {text: "[a]\nb = x\x00", bad: true},
		"bom":            {text: "\ufeff[a]\nb = x", bad: true},
		"key-with-colon": {text: "[a]\nb:c = x", bad: true},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseConfig([]byte(c.text))
			if (err != nil) != c.bad {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(configVar{})); err == nil && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// hostileConfig has one setting of each kind that runs a program or leads elsewhere.
var hostileConfig = []string{
	"[core]\n\tfsmonitor = /tmp/evil", "[core]\n\thooksPath = /tmp/h", "[core]\n\tsshCommand = evil", "[core]\n\tpager = evil",
	"[core]\n\teditor = evil", "[core]\n\tworktree = /", "[core]\n\tattributesFile = x", "[core]\n\texcludesFile = x", "[core]\n\tgitProxy = evil",
	"[core]\n\taskPass = evil", "[core]\n\talternateRefsCommand = evil", "[core]\n\tbare = true", "[core]\n\tbare",
	"[filter \"x\"]\n\tclean = evil\n\tsmudge = evil\n\tprocess = evil", "[alias]\n\tst = !evil", "[alias]\n\tst = status",
	"[include]\n\tpath = /tmp/c", "[includeIf \"gitdir:/\"]\n\tpath = /tmp/c", "[credential]\n\thelper = !evil", "[credential \"https://x\"]\n\thelper = evil",
	"[diff]\n\texternal = evil", "[diff \"x\"]\n\ttextconv = evil\n\tcommand = evil", "[merge \"x\"]\n\tdriver = evil", "[pager]\n\tlog = evil",
	"[url \"ext::sh -c evil\"]\n\tinsteadOf = https://", "[gpg]\n\tprogram = evil", "[gpg \"ssh\"]\n\tprogram = evil", "[user]\n\tsigningkey = x",
	"[sequence]\n\teditor = evil", "[uploadpack]\n\tpackObjectsHook = evil", "[protocol \"ext\"]\n\tallow = always", "[remote \"o\"]\n\turl = ext::sh -c evil",
	"[remote \"o\"]\n\turl = /tmp/repo", "[remote \"o\"]\n\turl = ssh://-oProxyCommand=evil/x", "[remote \"o\"]\n\turl = -u.x", "[remote \"o\"]\n\turl = evil::x",
	"[remote \"o\"]\n\turl = file:///tmp/r", "[remote \"-o\"]\n\turl = https://x/y", "[remote \"o\"]\n\treceivepack = evil", "[remote \"o\"]\n\tuploadpack = evil",
	"[remote \"o\"]\n\tvcs = evil", "[remote \"o\"]\n\tproxy = evil", "[remote \"o\"]\n\tpushurl = https://x/y", "[remote \"o\"]\n\tfetch = +refs/*:/etc/x",
	"[branch \"main\"]\n\tremote = /tmp/repo", "[branch \"--x\"]\n\tremote = o", "[branch \"main\"]\n\tmergeOptions = evil", "[rebase]\n\tinstructionFormat = x",
	"[submodule \"x\"]\n\tupdate = !evil", "[submodule \"x\"]\n\turl = y", "[trailer \"x\"]\n\tcommand = evil", "[difftool \"x\"]\n\tcmd = evil", "[mergetool \"x\"]\n\tcmd = evil",
	"[man \"x\"]\n\tcmd = evil", "[browser \"x\"]\n\tcmd = evil", "[web]\n\tbrowser = evil", "[instaweb]\n\thttpd = evil", "[sendemail]\n\tsmtpserver = evil",
	"[interactive]\n\tdiffFilter = evil", "[tar \"x\"]\n\tcommand = evil", "[extensions]\n\tworktreeConfig = true", "[extensions]\n\tpartialClone = o",
	"[init]\n\ttemplateDir = x", "[commit]\n\ttemplate = x", "[http]\n\tproxy = evil", "[lfs]\n\turl = x", "[lfs \"customtransfer.x\"]\n\tpath = evil", "[safe]\n\tdirectory = *",
	"[user]\n\tname = \"a\\nb\"", "[core]\n\tautocrlf = \"x\\n[alias]\\ny = !evil\"", "[core \"sub\"]\n\tfilemode = true", "[branch \"a/../../b\"]\n\tremote = o",
}

var harmlessConfig = `[core]
	repositoryformatversion = 0
	filemode = true
	bare = false
	logallrefupdates = true
	autocrlf = input
[user]
	name = "Ünï \"Q\" \\ # ; code"
	email = a@example.org
[remote "origin"]
	url = https://example.org/a/b.git
	fetch = +refs/heads/*:refs/remotes/origin/*
[remote "s"]
	url = git@example.org:a/b.git
[remote "t"]
	url = ssh://git@example.org:22/a/b.git
[branch "feature/x-1"]
	remote = origin
	merge = refs/heads/feature/x-1
	rebase
[pull]
	rebase = false
	ff = only
`

func TestCleanConfigKeepsTheHarmless(t *testing.T) {
	clean, held := cleanConfig([]byte(harmlessConfig))
	if len(held) > 0 {
		t.Errorf("held back %v", held)
	}
	want, err := parseConfig([]byte(harmlessConfig))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseConfig(clean)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(configVar{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCleanConfigHoldsTheHostileBack(t *testing.T) {
	for _, c := range hostileConfig {
		clean, held := cleanConfig([]byte(harmlessConfig + c + "\n"))
		if len(held) == 0 {
			t.Errorf("nothing held back of %q", c)
		}
		if strings.Contains(string(clean), "evil") || strings.Contains(string(clean), "/tmp") {
			t.Errorf("%q came through:\n%s", c, clean)
		}
		for _, h := range held {
			if strings.Contains(h, "evil") {
				t.Errorf("the reason holds a value: %s", h)
			}
		}
	}
	clean, held := cleanConfig([]byte("[core]\nfsmonitor = \"x"))
	if !slices.Equal(clean, formatConfig(minimalConfig)) || len(held) != 1 {
		t.Errorf("an unreadable configuration became %q, %v", clean, held)
	}
}

// listed is what git itself reads from a configuration.
func listed(t testing.TB, config []byte) (names []string, ok bool) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "config", "--file", file, "--no-includes", "--list", "-z").Output()
	if err != nil {
		return nil, false
	}
	for v := range strings.SplitSeq(string(out), "\x00") {
		if v != "" {
			name, _, _ := strings.Cut(v, "\n")
			names = append(names, name)
		}
	}
	return names, true
}

// FuzzCleanConfig: whatever goes in, what comes out parses again as the same
// settings, all of them on the list, and real git reads no other either.
func FuzzCleanConfig(f *testing.F) {
	f.Add([]byte(harmlessConfig), true)
	for _, c := range hostileConfig {
		f.Add([]byte(c), false) // a process for each input would leave no time for inputs
	}
	_, err := exec.LookPath("git")
	haveGit := err == nil
	f.Fuzz(func(t *testing.T, data []byte, askGit bool) {
		clean, _ := cleanConfig(data)
		vars, err := parseConfig(clean)
		if err != nil {
			t.Fatalf("does not parse again: %q", clean)
		}
		for _, v := range vars {
			if !keepVar(v) {
				t.Fatalf("came through: %+v in %q", v, clean)
			}
		}
		again, held := cleanConfig(clean)
		if string(again) != string(clean) || len(held) > 0 {
			t.Fatalf("cleaning twice differs: %q, %q", clean, again)
		}
		if !haveGit || !askGit {
			return
		}
		names, ok := listed(t, clean)
		if !ok {
			t.Fatalf("git cannot read %q", clean)
		}
		var want []string
		for _, v := range vars {
			name := v.section + "." + v.key
			if v.sub != "" {
				name = v.section + "." + v.sub + "." + v.key
			}
			want = append(want, name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatalf("git reads other settings (-ours +git):\n%s", diff)
		}
	})
}

// TestParserAgreesWithGit: where ours reads a file, git reads the same settings.
func TestParserAgreesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	for _, c := range append(hostileConfig, harmlessConfig, "[a]b=c", "[a]\nb = x \\\n  y ; z\n[A \"B\"]\nC", "[a.B]\nc = \"x\" y\n") {
		vars, err := parseConfig([]byte(c))
		if err != nil {
			t.Errorf("%q: %v", c, err)
			continue
		}
		names, ok := listed(t, []byte(c))
		if !ok || len(names) != len(vars) {
			t.Errorf("%q: ours %v, git %v", c, vars, names)
		}
	}
}
