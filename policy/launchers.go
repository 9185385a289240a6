package policy

import "strings"

// launcher is a program that runs the command in its arguments, and how it
// reads them. The grammars are those of GNU coreutils, util-linux, procps,
// findutils and the programs' own manuals.
type launcher struct {
	// short holds the one-letter options, as getopt(3) writes them: a colon
	// after a letter that takes a value, two after one whose value is optional
	// and attached.
	short string
	// long holds the long options by words, a colon after one that takes a
	// value which may be the next argument.
	long string
	// operands stand before the command; with optional, they may be missing.
	operands int
	optional bool
	// assigns: NAME=VALUE words may stand before the command.
	assigns bool
	// shell are options that start a shell, or give it a text; split are
	// options whose value is cut into words.
	shell, split string
	// bare: without a command it starts a shell.
	bare bool
	// text: it gives its arguments to a shell, unless one of the options
	// argvOnly is there.
	text     bool
	argvOnly string
	// after are the words that a command follows, wherever they stand.
	after string
	// loose: its grammar is too wide to write down; any argument may be the
	// command.
	loose bool
	// multi: it is many programs in one; the first operand says which.
	multi bool
}

// launchers by name.
var launchers = map[string]launcher{
	"env": {
		short: "i0u:C:S:va:", split: "-S --split-string", assigns: true,
		long: "ignore-environment null unset: chdir: split-string: debug argv0: block-signal default-signal ignore-signal list-signal-handling",
	},
	"nice":    {short: "n:0123456789", long: "adjustment:"},
	"nohup":   {},
	"setsid":  {short: "cfw", long: "ctty fork wait"},
	"timeout": {short: "fvpk:s:", long: "foreground verbose preserve-status kill-after: signal:", operands: 1},
	"stdbuf":  {short: "i:o:e:", long: "input: output: error:"},
	"time":    {short: "f:o:apvqV", long: "format: output: append portability verbose quiet"},
	"ionice":  {short: "c:n:tp:P:u:", long: "class: classdata: ignore pid: pgid: uid:"},
	"taskset": {short: "acp", long: "all-tasks cpu-list pid", operands: 1},
	"chrt": {
		short: "abdefiormpvT:P:D:GR", operands: 1, optional: true,
		long: "all-tasks batch deadline ext fifo idle other rr reset-on-fork max pid verbose sched-runtime: sched-period: sched-deadline: reclaim-grub",
	},
	"flock": {
		short: "sxeunoFw:E:c:", operands: 1, shell: "-c --command",
		long: "shared exclusive unlock nonblock nb timeout: wait: conflict-exit-code: close no-fork verbose command:",
	},
	"prlimit": {
		short: "c::d::e::f::i::l::m::n::q::r::s::t::u::v::x::y::p:o:",
		long:  "core data nice fsize sigpending memlock rss nofile msgqueue rtprio stack cpu nproc as locks rttime pid: output: noheadings raw verbose",
	},
	"setarch": {
		short: "BFILRSTXZ3v", operands: 1, optional: true, bare: true,
		long: "32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds sticky-timeouts read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose list show",
	},
	"linux64": {
		short: "BFILRSTXZ3v", bare: true,
		long: "32bit fdpic-funcptrs short-inode addr-compat-layout addr-no-randomize whole-seconds sticky-timeouts read-implies-exec mmap-page-zero 3gb 4gb uname-2.6 verbose",
	},
	"xargs": {
		short: "0rtxpoa:d:E:I:L:n:P:s:e::i::l::",
		long:  "null no-run-if-empty verbose exit interactive open-tty arg-file: delimiter: max-lines max-args: max-procs: max-chars: replace eof show-limits process-slot-var:",
	},
	"sudo": {
		short: "ABbEeHiKklNnPSsvVC:D:g:h:p:R:r:t:T:U:u:a:c:", assigns: true, shell: "-s -i --shell --login",
		long: "askpass bell background preserve-env edit set-home login remove-timestamp reset-timestamp list no-update non-interactive preserve-groups stdin shell validate version close-from: chdir: group: host: prompt: chroot: role: type: command-timeout: other-user: user:",
	},
	"doas":   {short: "Lnsu:C:a:", shell: "-s", assigns: true},
	"chroot": {long: "userspec: groups: skip-chdir", operands: 1, bare: true},
	"unshare": {
		short: "m::u::i::n::p::U::C::T::frcS:G:R:w:l:", bare: true,
		long: "mount uts ipc net pid user cgroup time fork map-root-user map-current-user map-auto keep-caps kill-child mount-proc mount-binfmt map-user: map-group: map-users: map-groups: owner: propagation: setgroups: root: wd: setuid: setgid: monotonic: boottime: load-interp:",
	},
	"nsenter": {
		short: "at:m::u::i::n::p::C::U::T::S:G:r::w::W:FeZcN:", bare: true,
		long: "all target: mount uts ipc net pid cgroup user time setuid: setgid: preserve-credentials root wd wdns: env no-fork follow-context join-cgroup net-socket: user-parent keep-caps",
	},
	"strace": {
		short: "a:b:e:E:I:o:O:p:P:s:S:u:U:X:AcCdDfFhikKnNqrtTvVwxyYzZ",
		long:  "columns: detach-on: trace: trace-path: env: interruptible: output: attach: string-limit: summary-sort-by: summary-columns: user: follow-forks debug summary summary-only summary-wall-clock stack-trace instruction-pointer syscall-number relative-timestamps absolute-timestamps syscall-times quiet decode-fds decode-pids failed-only successful-only seccomp-bpf no-abbrev output-append-mode output-separately daemonize tips argv0:",
	},
	"ltrace": {short: "a:A:D:e:F:l:n:o:p:s:u:w:x:X:bcCfhiLrStTV", long: "align: config: library: indent: output: demangle"},
	"find":   {after: "-exec -execdir -ok -okdir"},
	"fd":     {after: "-x -X --exec --exec-batch"},
	"rg":     {after: "--pre"},
	"entr":   {short: "acdnprsxz", shell: "-s"},
	"watch": {
		short: "bcCdegn:pq:rtvwxs:", text: true, argvOnly: "-x --exec",
		long: "beep color no-color differences errexit chgexit interval: precise equexit: no-rerun no-title no-wrap exec shotsdir:",
	},
	"runuser": {
		short: "u:g:G:c:flmps:Tw:", text: true, argvOnly: "-u --user",
		long: "user: group: supp-group: command: session-command: fast login preserve-environment shell: pty whitelist-environment:",
	},
	"su": {text: true}, "sg": {text: true}, "newgrp": {text: true}, "login": {text: true}, "script": {text: true},
	"scriptlive": {text: true}, "parallel": {text: true}, "capsh": {text: true}, "tmux": {text: true}, "screen": {text: true},
	"command": {short: "pvV"}, "catchsegv": {}, "eatmydata": {}, "unbuffer": {short: "p"}, "setpriv": {loose: true},
	"faketime": {short: "fmp:", long: "exclude-monotonic date-prog:", operands: 1},
	"fakeroot": {short: "l:s:i:uvhb:", long: "lib: faked: unknown-is-real", bare: true},
	"tini":     {short: "p:svwge:lh"}, "catatonit": {short: "gLPV"}, "dumb-init": {short: "cvr:", long: "single-child verbose rewrite:"},
	"gosu": {operands: 1}, "su-exec": {operands: 1}, "s6-setuidgid": {operands: 1}, "setuidgid": {operands: 1},
	"choom": {short: "n:p:", long: "adjust: pid:"}, "numactl": {loose: true}, "cgexec": {loose: true}, "runcon": {loose: true},
	"pkexec": {loose: true}, "bwrap": {loose: true}, "proot": {loose: true}, "firejail": {loose: true}, "systemd-run": {loose: true},
	"systemd-nspawn": {loose: true}, "systemd-inhibit": {loose: true}, "systemd-cat": {loose: true}, "perf": {loose: true},
	"valgrind": {loose: true}, "gdb": {loose: true}, "rlwrap": {loose: true}, "dbus-run-session": {loose: true}, "ssh-agent": {loose: true},
	"xvfb-run": {loose: true}, "cpulimit": {loose: true}, "proxychains": {loose: true}, "proxychains4": {loose: true}, "torsocks": {loose: true},
	"busybox": {multi: true}, "toybox": {multi: true}, "coreutils": {multi: true},
}

// aliases are other names of launchers.
var aliases = map[string]string{
	"fdfind": "fd", "gtimeout": "timeout", "genv": "env", "gnice": "nice", "gnohup": "nohup", "gxargs": "xargs", "gfind": "find",
	"gstdbuf": "stdbuf", "gtime": "time", "gchroot": "chroot", "linux32": "linux64", "i386": "linux64",
	"i686": "linux64", "x86_64": "linux64", "aarch64": "linux64", "uname26": "linux64", "sudo-rs": "sudo", "rush": "parallel",
}

// loader is the dynamic loader called as a program.
var loader = launcher{
	long: "argv0: library-path: preload: audit: inhibit-rpath: glibc-hwcaps-prepend: glibc-hwcaps-mask: inhibit-cache list verify list-tunables list-diagnostics",
}

// launcherOf returns the launcher of a program's name.
func launcherOf(name string) (launcher, bool) {
	if other, ok := aliases[name]; ok {
		name = other
	}
	if l, ok := launchers[name]; ok {
		return l, true
	}
	for _, prefix := range []string{"ld-linux", "ld-musl", "ld.so", "ld64.so"} {
		if strings.HasPrefix(name, prefix) {
			return loader, true
		}
	}
	for _, prefix := range []string{"busybox", "toybox"} {
		if strings.HasPrefix(name, prefix) {
			return launcher{multi: true}, true
		}
	}
	return launcher{loose: true}, strings.HasPrefix(name, "qemu-")
}

// isShell reports whether a name without version is a shell's.
func isShell(name string) bool {
	switch name {
	case "sh", "ash", "bash", "bosh", "csh", "dash", "elvish", "fish", "gash", "hush", "jsh", "ksh", "lash", "lksh", "loksh", "mksh",
		"mrsh", "msh", "murex", "nu", "nushell", "oil", "oksh", "osh", "pdksh", "posh", "powershell", "pwsh", "rbash", "rc", "rksh",
		"rzsh", "sash", "scsh", "sh.distrib", "tcsh", "xonsh", "yash", "ysh", "zsh":
		return true
	}
	return false
}
