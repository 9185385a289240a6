package policy

import (
	"errors"
	"path"
	"slices"

	"realm.dev/contract"
)

// Actions are the tags by which a rule can name what a command does, whatever
// its spelling. The shell analysis finds them.
var actions = []string{"git-push", "git-branch-delete", "gh-pr-merge", "publish", "remote-shell", "cluster"}

// Actions returns the tags that a rule's action may be.
func Actions() []string { return slices.Clone(actions) }

// gateRule is a compiled rule of the gate.
type gateRule struct {
	contract.GateRule
	globs []glob
	host  *destination
}

// Bounds of a rule.
const (
	maxRuleID   = 63
	maxRuleArgv = 64
)

// compileGate checks and compiles the rules of the gate.
func (c *Compiled) compileGate(v *violations) {
	g := &c.policy.Gate
	effects := []contract.Effect{contract.Deny, contract.Ask, contract.Allow}
	v.refuse(!slices.Contains(effects, g.Default), "is not one of the allowed values", "gate", "default")
	v.refuse(g.Unknown != "" && !slices.Contains(effects, g.Unknown), "is not one of the allowed values", "gate", "unknown")
	v.refuse(len(g.Rules) > maxEntries, "has more than 1024 entries", "gate", "rules")
	seen := make(map[string]bool, len(g.Rules))
	c.gate = make([]gateRule, len(g.Rules))
	for i := range g.Rules {
		r := &g.Rules[i]
		v.refuse(!slices.Contains(effects, r.Effect), "is not one of the allowed values", "gate", "rules", i, "effect")
		v.add(checkRuleID(r.ID), "gate", "rules", i, "id")
		v.refuse(seen[r.ID], "is the id of an earlier rule", "gate", "rules", i, "id")
		seen[r.ID] = true
		c.gate[i] = compileRule(v, r, i)
	}
}

func checkRuleID(id string) error {
	if id == "" || len(id) > maxRuleID || !isWord(id, "-") || id[0] == '-' {
		return errors.New("must be 1 to 63 characters a-z 0-9 -, not starting with -")
	}
	return nil
}

// compileRule checks the fields of one rule, and that a call can have all of
// them: a rule that never matches is a mistake, not a no-op.
func compileRule(v *violations, r *contract.GateRule, i int) gateRule {
	out := gateRule{GateRule: *r}
	at := func(key string) []any { return []any{"gate", "rules", i, key} }
	if r.Path != "" {
		globs, err := parseGlob(r.Path)
		v.add(err, at("path")...)
		out.globs = globs
	}
	if r.Host != "" {
		d, err := parseDestination(r.Host)
		v.add(err, at("host")...)
		out.host = &d
		if err == nil {
			r.Host = d.String()
			out.GateRule.Host = r.Host
		}
	}
	tool := contract.Tool(r.Tool)
	v.refuse(r.Tool != "" && !slices.Contains(tools, tool), "is not one of the tools", at("tool")...)
	v.refuse(len(r.Argv) > maxRuleArgv, "has more than 64 words", at("argv")...)
	v.refuse(len(r.Argv) > 0 && r.Argv[0] == "", "must start with a program", at("argv")...)
	v.refuse(r.Action != "" && !slices.Contains(actions, r.Action), "is not one of the known actions", at("action")...)

	forExec := len(r.Argv) > 0 || r.Action != ""
	v.refuse(r.Tool == "" && r.Path == "" && r.Host == "" && !forExec, "names nothing to match: use gate.default", "gate", "rules", i)
	v.refuse(r.Host != "" && (r.Tool != "" || r.Path != "" || forExec), "cannot match together with the other fields: a call has no host", at("host")...)
	v.refuse(forExec && r.Tool != "" && tool != contract.ToolExec, "cannot match: only exec has argv and actions", at("tool")...)
	v.refuse(forExec && r.Tool == "" && r.Path != "", "cannot match: name the tool exec, whose path is its working directory", at("path")...)
	v.refuse(r.Path != "" && (tool == contract.ToolStatus || tool == contract.ToolStop), "cannot match: this tool has no path", at("path")...)
	return out
}

var tools = []contract.Tool{
	contract.ToolWrite, contract.ToolRead, contract.ToolList, contract.ToolExec, contract.ToolStatus, contract.ToolStop,
}

// subject is what of a call the rules look at.
type subject struct {
	tool    contract.Tool
	names   [][]nameSegment // the path as given and as resolved
	argv    []string
	actions []string
	host    *destination
}

// gateDecision applies the rules: the strongest effect wins, then the order.
func (c *Compiled) gateDecision(s subject) Decision {
	for _, effect := range []contract.Effect{contract.Deny, contract.Ask, contract.Allow} {
		for i := range c.gate {
			if r := &c.gate[i]; r.Effect == effect && r.matches(s) {
				return decided(effect, "gate:"+r.ID, "a rule of the policy decides this call")
			}
		}
	}
	return decided(c.policy.Gate.Default, "gate.default", "the policy's default for calls decides")
}

// matches reports whether all fields of r match. What forbids matches in every
// spelling that could be meant; what allows, only the very thing it names.
func (r *gateRule) matches(s subject) bool {
	exact := r.Effect == contract.Allow
	switch {
	case r.Tool != "" && contract.Tool(r.Tool) != s.tool,
		r.Path != "" && !r.matchesPath(s, exact),
		len(r.Argv) > 0 && !matchesArgv(r.Argv, s.argv, exact),
		r.Action != "" && !slices.Contains(s.actions, r.Action),
		r.host != nil && (s.host == nil || !r.host.matches(*s.host)):
		return false
	}
	return true
}

// matchesPath matches the path of a file tool; of exec, the working directory,
// if the rule names exec. An allow rule must match every name of the file.
func (r *gateRule) matchesPath(s subject, exact bool) bool {
	if len(s.names) == 0 || s.tool == contract.ToolExec && contract.Tool(r.Tool) != contract.ToolExec {
		return false
	}
	one := func(name []nameSegment) bool {
		return slices.ContainsFunc(r.globs, func(g glob) bool { return g.match(name, exact) })
	}
	if exact {
		return !slices.ContainsFunc(s.names, func(n []nameSegment) bool { return !one(n) })
	}
	return slices.ContainsFunc(s.names, one)
}

// matchesArgv reports whether argv starts with prefix. Unless exact, a program
// is known by the last part of its path, and behind wrappers too.
func matchesArgv(prefix, argv []string, exact bool) bool {
	starts := func(cmd []string) bool {
		if len(cmd) < len(prefix) || !slices.Equal(prefix[1:], cmd[1:len(prefix)]) {
			return false
		}
		return cmd[0] == prefix[0] || !exact && path.Base(cmd[0]) == path.Base(prefix[0])
	}
	if exact {
		return starts(argv)
	}
	w := walk(argv)
	return w.gaveUp || slices.ContainsFunc(w.commands, starts)
}
