package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"

	"realm.dev/contract"
)

// Compiled is a policy that was found enforceable as written. It is immutable.
type Compiled struct {
	policy  contract.Policy // canonical
	digest  string
	egress  []destination // by index of policy.EgressAllow
	git     *PathSet
	protect *PathSet
	hide    *PathSet
	gate    []gateRule // by index of policy.Gate.Rules
}

// Compile checks a policy and prepares it for decisions. Its error is a
// *contract.Error that lists every violation at its pointer.
func Compile(p contract.Policy) (*Compiled, error) {
	c := &Compiled{policy: canonical(p)}
	var v violations
	c.checkScalars(&v)
	c.checkLimits(&v)
	c.checkLists(&v)
	c.compilePaths(&v)
	c.compileEgress(&v)
	c.compileGate(&v)
	if err := v.err(); err != nil {
		return nil, err
	}
	doc, err := json.Marshal(c.policy)
	if err != nil {
		return nil, contract.Errorf(contract.Internal, "the policy cannot be encoded").WithCause(err)
	}
	sum := sha256.Sum256(doc)
	c.digest = "sha256:" + hex.EncodeToString(sum[:])
	return c, nil
}

// Policy returns the canonical policy: hosts in their one spelling, no nil list.
func (c *Compiled) Policy() contract.Policy { return canonical(c.policy) }

// Digest names the canonical policy: "sha256:" and 64 hexadecimal digits.
func (c *Compiled) Digest() string { return c.digest }

// Protect returns what is read-only even in workspace-write, apart from Git.
func (c *Compiled) Protect() *PathSet { return c.protect }

// Git returns what is read-only of the workspace's git directory.
func (c *Compiled) Git() *PathSet { return c.git }

// Hide returns what the session does not see.
func (c *Compiled) Hide() *PathSet { return c.hide }

// canonical copies p so that nobody else holds its lists, none of them nil.
func canonical(p contract.Policy) contract.Policy {
	p.Explicit = slices.Clone(p.Explicit)
	p.Mounts = list(p.Mounts)
	p.EgressAllow = list(p.EgressAllow)
	p.Protect = list(p.Protect)
	p.Unprotect = list(p.Unprotect)
	p.Hide = list(p.Hide)
	p.Env = list(p.Env)
	p.Gate.Rules = list(p.Gate.Rules)
	for i := range p.Gate.Rules {
		p.Gate.Rules[i].Argv = slices.Clone(p.Gate.Rules[i].Argv)
	}
	return p
}

func list[T any](s []T) []T { return append(make([]T, 0, len(s)), s...) }

// oneOf reports a value that is none of the allowed ones.
func oneOf[T comparable](v *violations, value T, key string, allowed ...T) {
	v.refuse(!slices.Contains(allowed, value), "is not one of the allowed values", key)
}

func (c *Compiled) checkScalars(v *violations) {
	p := &c.policy
	oneOf(v, p.Mode, "mode", contract.ReadOnly, contract.WorkspaceWrite)
	oneOf(v, p.Git, "git", contract.GitRead, contract.GitWrite)
	oneOf(v, p.User, "user", contract.UserAgent, contract.UserRoot)
	oneOf(v, p.EgressDefault, "egressDefault", contract.Deny, contract.Ask)
	v.add(checkImage(p.Image), "image")
	v.add(checkHome(p.Home), "home")
	v.refuse(p.Git == contract.GitWrite && p.Mode == contract.ReadOnly, "write needs the mode workspace-write", "git")
	v.refuse(p.User == contract.UserRoot && p.Image == "host", "root needs an OCI image", "user")
}

// maxEntries bounds each list of the policy.
const maxEntries = 1024

// checkLists checks the lists whose entries stand for themselves.
func (c *Compiled) checkLists(v *violations) {
	p := &c.policy
	eachOnce(v, "env", p.Env, func(name string) string { return name }, checkEnv)
	eachOnce(v, "mounts", p.Mounts, func(m contract.Mount) string { return m.Path }, nil)
	for i, m := range p.Mounts {
		v.add(MountPath(m.Path, m.Write, Host{}), "mounts", i, "path")
	}
	eachOnce(v, "unprotect", p.Unprotect, func(s string) string { return s }, func(s string) error {
		if !slices.Contains(builtinProtect, s) {
			return errors.New("is not one of the built-in protect entries")
		}
		return nil
	})
}

// eachOnce checks every entry of a list, and that no two have the same key.
func eachOnce[T any](v *violations, list string, entries []T, key func(T) string, check func(T) error) {
	v.refuse(len(entries) > maxEntries, "has more than 1024 entries", list)
	seen := make(map[string]bool, len(entries))
	for i, e := range entries[:min(len(entries), maxEntries)] {
		if check != nil {
			v.add(check(e), list, i)
		}
		v.refuse(seen[key(e)], "is in the list already", list, i)
		seen[key(e)] = true
	}
}

// compilePaths compiles protect, hide and git.
func (c *Compiled) compilePaths(v *violations) {
	p := &c.policy
	c.git = gitSet(p.Git == contract.GitWrite)
	c.protect = protectSet(p.Unprotect)
	c.hide = hideSet()
	compilePatterns(v, "protect", p.Protect, c.protect)
	compilePatterns(v, "hide", p.Hide, c.hide)
}

func compilePatterns(v *violations, key string, patterns []string, into *PathSet) {
	eachOnce(v, key, patterns, func(s string) string { return s }, nil)
	for i, pattern := range patterns {
		globs, err := parseGlob(pattern)
		v.add(err, key, i)
		for _, g := range globs {
			v.refuse(g.matchesRoot(), "matches the workspace itself", key, i)
		}
		into.addOwn(key, i, pattern, globs)
	}
}

// compileEgress reads the destinations and puts them in their one spelling.
func (c *Compiled) compileEgress(v *violations) {
	entries := c.policy.EgressAllow
	type target struct {
		host string
		port int
	}
	seen := make(map[target]bool, len(entries))
	v.refuse(len(entries) > maxEntries, "has more than 1024 entries", "egressAllow")
	c.egress = make([]destination, len(entries))
	for i := range entries {
		e := &entries[i]
		v.refuse(e.Port < 1 || e.Port > 65535, "must be a port from 1 to 65535", "egressAllow", i, "port")
		d, err := parseDestination(e.Host)
		if err == nil && d.addr.IsValid() {
			err = reachable(d.addr)
			v.refuse(e.SNI, "needs a name: an address has no TLS name", "egressAllow", i, "sni")
		}
		if err != nil {
			v.add(err, "egressAllow", i, "host")
			continue
		}
		c.egress[i], e.Host = d, d.String()
		t := target{e.Host, e.Port}
		v.refuse(seen[t], "has the host and port of an earlier entry", "egressAllow", i)
		seen[t] = true
	}
}
