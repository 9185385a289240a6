package policy

import (
	"cmp"

	"realm.dev/contract"
)

// Request is one call and what the caller found out about it.
type Request struct {
	Call     contract.ToolCall
	Resolved string    // the path of the call (of exec: its cwd) after links were followed; "" when not known
	File     FileState // what is at the path
	Actions  []string  // what the shell analysis found a command to do
}

// Decision is the answer to one call, and why.
type Decision struct {
	Effect contract.Effect `json:"decision"`
	Code   contract.Code   `json:"code"`   // "" unless denied
	Rule   string          `json:"rule"`   // what decided
	Reason string          `json:"reason"` // fixed text
}

// Err returns the error that a caller gets: nil when allowed. A call that must
// be asked about fails as well, for somebody has to answer first.
func (d Decision) Err() error {
	switch d.Effect {
	case contract.Allow:
		return nil
	case contract.Ask:
		return contract.Errorf(contract.PermissionUnavailable, "nobody was asked (%s)", d.Rule)
	case contract.Deny:
	}
	return contract.Errorf(cmp.Or(d.Code, contract.PermissionDenied), "%s (%s)", d.Reason, d.Rule)
}

// Decide applies the local rules in their order: paths, shell, limits, the
// gate's rules, the gate's default. A refusal by one of the first three is final.
func (c *Compiled) Decide(r Request) Decision {
	s := subject{tool: r.Call.Tool(), actions: r.Actions}
	if s.tool == "" {
		return Decision{Effect: contract.Deny, Code: contract.SchemaInvalid, Rule: "schema", Reason: "the call names no tool"}
	}
	if given, op, ok := pathOf(&r.Call); ok {
		names := []string{given}
		if r.Resolved != "" {
			names = append(names, r.Resolved)
		}
		for _, rel := range names {
			if v := c.PathRule(rel, op, r.File); v.Effect != contract.Allow {
				return Decision{Effect: v.Effect, Code: v.Code, Rule: v.Rule, Reason: v.Reason}
			}
			name, err := splitName(rel)
			if err != nil {
				return Decision{Effect: contract.Deny, Code: contract.PathRefused, Rule: ruleEscapes, Reason: reasonEscapes}
			}
			s.names = append(s.names, name)
		}
	}
	if e := r.Call.Exec; e != nil {
		s.argv = e.Argv
		if d := c.execRules(e); d.Effect == contract.Deny {
			return d
		}
	}
	return c.gateDecision(s)
}

// execRules applies the rules that only exec has.
func (c *Compiled) execRules(e *contract.ExecCall) Decision {
	switch {
	case !c.policy.AllowShell && (e.Shell || ShellForm(e.Argv)):
		return Decision{
			Effect: contract.Deny, Code: contract.ShellNotAllowed, Rule: "allowShell",
			Reason: "the policy does not allow a shell, nor argv that is one",
		}
	case e.TimeoutMs > c.policy.Limits.ExecMs:
		return Decision{
			Effect: contract.Deny, Code: contract.LimitExceeded, Rule: "limits.execMs",
			Reason: "timeoutMs is longer than the policy allows a call to run",
		}
	}
	return Decision{Effect: contract.Allow}
}

// pathOf returns the path that a call names and what it does with it.
func pathOf(call *contract.ToolCall) (rel string, op Op, ok bool) {
	switch {
	case call.Write != nil:
		return call.Write.Path, OpWrite, true
	case call.Read != nil:
		return call.Read.Path, OpRead, true
	case call.List != nil:
		return call.List.Path, OpList, true
	case call.Exec != nil:
		return call.Exec.Cwd, OpExec, true
	}
	return "", 0, false
}

// decided makes the decision that a rule of the policy takes.
func decided(effect contract.Effect, rule, reason string) Decision {
	d := Decision{Effect: effect, Rule: rule, Reason: reason}
	if effect != contract.Allow && effect != contract.Ask {
		d.Effect, d.Code = contract.Deny, contract.PermissionDenied
	}
	return d
}
