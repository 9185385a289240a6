package cli

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"realm.dev/contract"
	"realm.dev/policy"
	"realm.dev/realm"
)

// runPolicy is the policy of a run: the file with what the flags say on top. Both
// are judged by the same rules, the file first, so that what is wrong in it has
// its line.
func (a *app) runPolicy(o runOptions) (*policy.Compiled, error) {
	doc, err := a.givenPolicy(o.policy, o.workspace)
	if err != nil {
		return nil, err
	}
	p, err := loadPolicy(doc)
	if err != nil {
		return nil, err
	}
	if _, err := enforceable(p); err != nil {
		return nil, locate(doc, err)
	}
	if err := o.apply(&p); err != nil {
		return nil, err
	}
	return enforceable(p)
}

// apply puts the flags on top of a policy.
func (o *runOptions) apply(p *contract.Policy) error {
	if o.image != "" {
		p.Image = o.image
	}
	if o.gitWrite {
		p.Git = contract.GitWrite
	}
	for i, text := range o.allow {
		entry, err := destination(text)
		if err != nil {
			return usagef("--allow %s: %v", ordinal(i+1), err).withHint("--allow example.org:443")
		}
		p.EgressAllow = append(p.EgressAllow, entry)
	}
	for _, name := range o.env {
		if !slices.Contains(p.Env, name) { // naming it twice is no mistake
			p.Env = append(p.Env, name)
		}
	}
	return nil
}

// enforceable compiles a policy and refuses what this build cannot enforce.
func enforceable(p contract.Policy) (*policy.Compiled, error) {
	c, err := policy.Compile(p)
	if err != nil {
		return nil, err
	}
	if v := c.Enforceable(realm.Features); len(v) > 0 {
		return nil, contract.Invalid(v...).WithHint("this build cannot enforce that; leave it out of the policy")
	}
	return c, nil
}

// givenPolicy reads the policy that --policy names, else this user's, else {}.
func (a *app) givenPolicy(path, workspace string) (document, error) {
	if path == "-" {
		return document{}, usagef("--policy must be a file: standard input is the command's")
	}
	if path != "" {
		return a.readPolicy(path, workspace)
	}
	path = filepath.Join(policyHome(), "policy.yaml")
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return document{name: "the built-in policy", data: []byte("{}"), format: contract.JSON}, nil
	}
	return a.readPolicy(path, workspace)
}

// destination reads a --allow. Whether the host is one is the policy's business.
func destination(text string) (contract.EgressEntry, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return contract.EgressEntry{}, errors.New("not HOST:PORT")
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return contract.EgressEntry{}, errors.New("the port is not a number")
	}
	return contract.EgressEntry{Host: host, Port: n}, nil
}

// environ returns the variables of this process that names allow. One that is
// not set is not passed.
func environ(names []string) map[string]string {
	env := map[string]string{}
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env[name] = value
		}
	}
	return env
}
