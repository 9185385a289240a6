package workspace

import (
	"slices"
	"strings"

	"realm.dev/internal/lazyregexp"
)

// keptConfig is every setting that may reach the host in a repository that a session made.
// Whatever is not here is held back: git's configuration names programs in more
// places than a list of bad ones could follow (core.fsmonitor, core.hooksPath,
// filter.*, alias.*, include.path, credential.helper, diff.*.textconv …). Each
// value has a closed form too; a subsection is matched by the pattern in sub.
var keptConfig = map[string]struct {
	sub   *lazyregexp.Regexp // nil: the setting has no subsection
	value *lazyregexp.Regexp // nil: a boolean
}{
	"core.repositoryformatversion": {value: lazyregexp.New(`^[01]$`)},
	"core.filemode":                {},
	"core.bare":                    {value: lazyregexp.New(`^(false|no|off|0)$`)},
	"core.logallrefupdates":        {value: lazyregexp.New(`^(true|false|always)$`)},
	"core.ignorecase":              {},
	"core.precomposeunicode":       {},
	"core.symlinks":                {},
	"core.quotepath":               {},
	"core.autocrlf":                {value: lazyregexp.New(`^(true|false|input)$`)},
	"core.eol":                     {value: lazyregexp.New(`^(lf|crlf|native)$`)},
	"extensions.objectformat":      {value: lazyregexp.New(`^(sha1|sha256)$`)},
	"extensions.refstorage":        {value: lazyregexp.New(`^(files|reftable)$`)},
	"user.name":                    {value: plainText},
	"user.email":                   {value: plainText},
	"init.defaultbranch":           {value: refName},
	"branch.remote":                {sub: refName, value: remoteName},
	"branch.merge":                 {sub: refName, value: refName},
	"branch.rebase":                {sub: refName},
	"remote.url":                   {sub: remoteName, value: remoteURL},
	"remote.fetch":                 {sub: remoteName, value: refSpec},
	"pull.rebase":                  {},
	"pull.ff":                      {value: lazyregexp.New(`^(true|false|only)$`)},
	"push.default":                 {value: lazyregexp.New(`^(nothing|current|upstream|simple|matching)$`)},
	"push.autosetupremote":         {},
	"fetch.prune":                  {},
	"merge.conflictstyle":          {value: lazyregexp.New(`^(merge|diff3|zdiff3)$`)},
	"rerere.enabled":               {},
}

var (
	boolean    = lazyregexp.New(`^(true|false|yes|no|on|off|1|0)$`)
	plainText  = lazyregexp.New(`^[^\x00-\x1f\x7f]{0,256}$`)
	refName    = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}$`)
	remoteName = lazyregexp.New(`^(\.|[A-Za-z0-9_][A-Za-z0-9._-]{0,63})$`)
	refSpec    = lazyregexp.New(`^\+?refs/[A-Za-z0-9._/*-]{1,200}:refs/[A-Za-z0-9._/*-]{1,200}$`)
	// Only transports that run no program of the remote's choosing, and neither
	// a local path nor a host that ssh would read as an option.
	remoteURL = lazyregexp.New(`^(https://|ssh://([A-Za-z0-9_][A-Za-z0-9._-]*@)?|git@)[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?[:/][A-Za-z0-9._~+/-]{1,1000}$`)
)

// minimalConfig is the configuration of a repository whose own cannot be read.
var minimalConfig = []configVar{
	{section: "core", key: "repositoryformatversion", value: "0", set: true},
	{section: "core", key: "filemode", value: "true", set: true},
	{section: "core", key: "bare", value: "false", set: true},
	{section: "core", key: "logallrefupdates", value: "true", set: true},
}

// cleanConfig returns a configuration with the harmless settings of data, and
// a reason for each kind of setting that is held back.
func cleanConfig(data []byte) (clean []byte, heldBack []string) {
	vars, err := parseConfig(data)
	if err != nil {
		return formatConfig(minimalConfig), []string{"it is not readable as git configuration"}
	}
	var kept []configVar
	for _, v := range vars {
		if keepVar(v) {
			kept = append(kept, v)
			continue
		}
		reason := v.name() + " is not among the settings that realm publishes"
		if len(v.name()) > 64 {
			reason = "a setting with a long name is not among those that realm publishes"
		}
		heldBack = append(heldBack, reason)
	}
	slices.Sort(heldBack)
	return formatConfig(kept), slices.Compact(heldBack)
}

func keepVar(v configVar) bool {
	rule, ok := keptConfig[v.name()]
	switch {
	case !ok:
		return false
	case rule.sub == nil && v.sub != "":
		return false
	case rule.sub != nil && (!rule.sub.MatchString(v.sub) || strings.Contains(v.sub, "..")):
		return false
	case rule.value == nil:
		return !v.set || boolean.MatchString(v.value)
	}
	return v.set && rule.value.MatchString(v.value)
}
