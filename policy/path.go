package policy

import (
	"strings"

	"realm.dev/contract"
)

// Op is what a call does with a path.
type Op uint8

// The operations. OpExec is the use of a directory as working directory.
const (
	OpRead Op = iota
	OpWrite
	OpList
	OpExec
)

// FileState is what the caller found at a path. The zero value is the strictest.
type FileState uint8

// The file states.
const (
	FileUnknown FileState = iota // not looked
	FileAbsent                   // nothing is there
	FilePlain                    // something is there; if it is a TokenFile, it holds no token
	FileToken                    // a TokenFile that holds a token
)

// PathVerdict says whether the path rules let an operation through.
type PathVerdict struct {
	Effect contract.Effect // Allow or Deny
	Code   contract.Code   // "" when allowed
	Rule   string          // which rule refused
	Reason string          // fixed text

	// NeedsContent says that the refusal stands only until somebody has
	// looked: ask again with FilePlain, FileToken or FileAbsent.
	NeedsContent bool
}

// Reasons of the path rules.
const (
	reasonEscapes   = "the path leaves the workspace"
	reasonHidden    = "the path is hidden from the session"
	reasonProtected = "the path is protected from writes"
	reasonGit       = "the policy does not let the session change this part of the git directory"
	reasonReadOnly  = "the workspace is read-only"
)

// The rules that are not entries.
const (
	ruleEscapes  = "path-escapes-root"
	ruleReadOnly = "mode:read-only"
)

// PathRule decides one operation on one workspace-relative name ("" and "." are
// the root). Links are the caller's to follow: it asks for the name as given
// and for the resolved one, and the first refusal stands.
func (c *Compiled) PathRule(rel string, op Op, st FileState) PathVerdict {
	name, err := splitName(rel)
	if err != nil {
		return refusePath(ruleEscapes, reasonEscapes)
	}
	if v := c.hidden(name, op, st); v.Effect == contract.Deny {
		return v
	}
	if op != OpWrite {
		return PathVerdict{Effect: contract.Allow}
	}
	if e := c.git.first(name); e != nil {
		return refusePath(e.Rule, reasonGit)
	}
	if len(name) == 1 && strings.EqualFold(name[0].text, ".git") {
		// A file made here would point host git at a directory of its choice.
		return refusePath("git:write", reasonGit)
	}
	if e := c.protect.first(name); e != nil {
		return refusePath(e.Rule, reasonProtected)
	}
	if c.policy.Mode != contract.WorkspaceWrite {
		return refusePath(ruleReadOnly, reasonReadOnly)
	}
	return PathVerdict{Effect: contract.Allow}
}

// hidden applies the hide list. Content is asked for last: an entry that needs
// none makes the question moot.
func (c *Compiled) hidden(name []nameSegment, op Op, st FileState) PathVerdict {
	unread := ""
	for i := range c.hide.entries {
		e := &c.hide.entries[i]
		self, covered := e.covers(name)
		switch {
		case !covered:
			continue
		case e.Content && st == FileUnknown:
			unread = e.Rule
			continue
		case e.Content && st != FileToken:
			continue
		case e.BuiltIn && self && op == OpWrite && st == FileAbsent:
			// Nothing secret is there yet, and a program inside may make it too.
			continue
		}
		return refusePath(e.Rule, reasonHidden)
	}
	if unread != "" {
		v := refusePath(unread, reasonHidden)
		v.NeedsContent = true
		return v
	}
	return PathVerdict{Effect: contract.Allow}
}

func refusePath(rule, reason string) PathVerdict {
	return PathVerdict{Effect: contract.Deny, Code: contract.PathRefused, Rule: rule, Reason: reason}
}
