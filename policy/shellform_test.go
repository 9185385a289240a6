package policy

import (
	"slices"
	"strings"
	"testing"
)

func TestShellForm(t *testing.T) {
	// One command per line; a tab separates the words that blanks would not.
	shell := `
sh
/bin/sh -c x
bash5 -c x
/usr/local/bin/bash-5.2 x
BASH -c x
Zsh-5.9
ksh93 x
zsh-static
dash script
fish -c x
busybox sh -c x
busybox ash
/bin/busybox env sh
busybox timeout 5 sh
toybox sh
busybox.static sh
busybox busybox sh
coreutils --coreutils-prog=env sh
coreutils env sh
env sh
env - sh
env -i PATH=/bin sh -c x
env -u A -C /tmp -- B=1 sh
env A=1 B=2 bash
env -iu A sh
env --unset A sh
env --uns=A sh
env --chd /tmp sh
env -S	sh -c x
env -S	'sh' x
env -S	-i s"h" x
env -Ssh
env -vS	A=1 sh
env -i -S	env -S "sh -c x"
env --split-string=bash -c x
env --split	bash -c x
env -S	${SHELL} x
env -S	"sh
env -S	git\_push	sh
env -Z sh
env -Z value sh
timeout 5 sh
timeout -k 5 9 sh
timeout -sKILL --foreground 5 sh
timeout --kill 3 5 sh
timeout --unknown 5 sh
nice sh
nice -n 5 sh
nice -5 sh
nice --adjustment=5 sh
nohup sh
setsid -w sh
stdbuf -oL -e 0 sh
time -v sh
time -o f -f %e sh
ionice -c2 -n 7 sh
ionice -c 3 sh
taskset 1 sh
taskset -c 0,1 sh
chrt 10 sh
chrt --idle 0 sh
xargs sh -c x
xargs -n 1 -P4 -I {} sh -c x
xargs -i sh
xargs --max-args 1 bash
flock /tmp/l sh
flock -n -w 5 /tmp/l sh
flock /tmp/l -c x
flock /tmp/l --command x
sudo sh
sudo -u root sh
sudo -s
sudo -iu root
sudo --login
sudo A=1 sh
doas -u root sh
doas -s
chroot / sh
chroot /
chroot --userspec=1:1 / /bin/sh
unshare -Urm sh
unshare
unshare --map-users 1,2,3 -- sh
nsenter -t 1 -m sh
nsenter -t 1
setarch x86_64 sh
linux32 sh
linux64
strace -f -e trace=exec sh
strace -o f -- sh
ltrace -f sh
prlimit --nofile=10 sh
watch ls
watch -n 1 git status
watch -x sh
su
su - user -c x
runuser -l x
runuser -u x -- sh
script -c x f
parallel echo
tmux new x
capsh -- -c x
find . -exec sh -c x ;
find . -maxdepth 0 -execdir bash -c x {} +
find . -ok sh ;
find . -exec env sh ;
find . -exec find . -exec sh ; ;
fd -x sh -c x
fdfind --exec-batch sh
fd --exec=sh
rg --pre sh pat
entr -s x
entr -r sh
command sh
bwrap --ro-bind / / sh
systemd-run --user --pty bash
setpriv --reuid 1 sh
perf stat sh
/lib64/ld-linux-x86-64.so.2 /bin/sh
/lib/ld-musl-x86_64.so.1 --library-path /lib -- /bin/sh
qemu-x86_64-static /bin/sh
env nice -n 1 timeout 5 nohup setsid stdbuf -o0 sh
`
	plain := `
grep sh
grep -rn sh .
echo bash
git push
git commit -m sh
/home/sh/bin/tool
./sh.txt
sh.py
shellcheck x.sh
bash-completion
fishnet
ssh host sh
python3 -c x
env
env A=sh
env -i A=1 git status
env -S	git push origin
env -S	grep 'sh' x
env -S	git commit # sh
env -u sh git status
env --unset=sh git
timeout 5 grep sh f
timeout -s sh 5 git
timeout --foreground 5 grep sh
nice grep sh f
nice -5 grep sh
nohup grep sh f
time -v grep sh f
time -o sh grep x
ionice -c2 -n7 grep sh f
taskset 1 grep sh f
chrt 10 grep sh f
xargs grep sh
xargs -n 1 grep sh
xargs -I sh grep x
flock /dev/null git push
flock sh git push
flock -E 3 /tmp/l grep sh
sudo -u root git push
sudo -u sh git push
sudo A=sh git push
doas git push
chroot / ls sh
unshare -Urm ls sh
nsenter -t 1 -m ls sh
linux32 grep sh f
strace -f -o sh git status
watch -x git status
watch --exec grep sh f
runuser -u x -- git status
find . -name sh
find . -exec git push ;
find sh -type f
fd sh
fd -x git push
rg --pre ./x pat
rg sh
busybox ls sh
busybox grep sh f
busybox --list
coreutils ls sh
bwrap --ro-bind / / ls
npm test
make sh
entr -r go test
ld-linux-x86-64.so.2 --argv0 sh /bin/ls
`
	for _, line := range lines(shell) {
		if !ShellForm(line) {
			t.Errorf("%q is not taken for a shell", line)
		}
	}
	for _, line := range lines(plain) {
		if ShellForm(line) {
			t.Errorf("%q is taken for a shell", line)
		}
	}
	for _, argv := range [][]string{nil, {}, {""}, {"", "sh"}, {"."}, {"/"}} {
		if ShellForm(argv) {
			t.Errorf("%q is taken for a shell", argv)
		}
	}
}

// lines cuts a list of commands into argument vectors: at tabs when a line has
// some (the first part at blanks too), else at blanks.
func lines(text string) [][]string {
	var out [][]string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		head, rest, tabbed := strings.Cut(line, "\t")
		argv := strings.Fields(head)
		if tabbed {
			argv = append(argv, strings.Split(rest, "\t")...)
		}
		out = append(out, argv)
	}
	return out
}

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"":              nil,
		" a  b\tc ":     {"a", "b", "c"},
		`'a b' "c d"e`:  {"a b", "c de"},
		`a\_b "c\_d"`:   {"a", "b", "c d"},
		`a\cb c`:        {"a"},
		"a #b":          {"a"},
		"a#b":           {"a#b"},
		`''`:            {""},
		`'a\'b\\c\d'`:   {`a'b\c\d`},
		`a\nb \t\v\f\r`: {"a\nb", "\t\v\f\r"},
		`\"\#\$\'\\`:    {`"#$'\`},
		"'$A'":          {"$A"},
	} {
		if got, ok := splitWords(text); !ok || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %t, want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{`"a`, `'a`, `a\`, `\z`, `"\c"`, "${A}", `"$A"`} {
		if got, ok := splitWords(text); ok {
			t.Errorf("%q was cut into %q", text, got)
		}
	}
}

// Whatever the argument vector, the work is bounded; what is beyond counts as a
// shell.
func TestShellFormIsBounded(t *testing.T) {
	for _, part := range [][]string{
		{"env"},
		{"env", "-Z"},
		{"sudo", "-Z", "-Y"},
		{"find", "-exec"},
		{"env", "-S", "env -S x"},
		{"env", "-Z", "-S", "a"},
		{"bwrap", "setpriv"},
		{"xargs", "-Zi"},
	} {
		var argv []string
		for len(argv) < 4096 {
			argv = append(argv, part...)
		}
		w := walk(argv)
		if w.budget < -len(argv)*2 {
			t.Errorf("%q: the budget is overdrawn by %d", part, -w.budget)
		}
		if !ShellForm(append(argv, "sh")) && part[0] != "env" {
			t.Errorf("%q: a shell at the far end is not seen", part)
		}
	}
}

// FuzzShellForm: never panics, is bounded, and a wrapper of a shell stays one.
func FuzzShellForm(f *testing.F) {
	for _, s := range []string{"sh\n-c\nx", "env\n-S\nsh -c x", "timeout\n-k\n5\n9\nsh", "find\n.\n-exec\nsh\n;", "busybox\nsh", "watch\n-x\nls"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		argv := strings.Split(text, "\n")
		w := walk(argv)
		if w.budget < -2*(len(text)+len(argv)) {
			t.Fatalf("the budget is overdrawn by %d", -w.budget)
		}
		if !ShellForm(argv) || strings.Contains(argv[0], "=") || strings.HasPrefix(argv[0], "-") {
			return
		}
		for _, wrapper := range [][]string{{"env"}, {"timeout", "-k", "1", "5"}, {"nice", "-n", "1"}, {"sudo", "--"}, {"busybox"}, {"find", ".", "-exec"}} {
			if wrapped := slices.Concat(wrapper, argv); !ShellForm(wrapped) {
				t.Errorf("%q is a shell and %q is not", argv, wrapped)
			}
		}
	})
}
