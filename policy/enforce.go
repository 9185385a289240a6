package policy

import "realm.dev/contract"

// Features says what this build on this host can enforce. The zero value is
// nothing, so that a part nobody switched on is refused.
type Features struct {
	Egress      bool // egressAllow
	EgressAsk   bool // egressDefault: ask
	GateRules   bool // gate.rules, gate.default, gate.decisionMs, gate.holdMs
	GateUnknown bool // gate.unknown
	UserRoot    bool // user: root
	MemoryLimit bool // a memory controller
	CPULimit    bool // a cpu controller
	PidsLimit   bool // a pids controller, or RLIMIT_NPROC in a user namespace of its own
}

// Enforceable lists what the policy asks for and f cannot give, each at its
// pointer. A policy is never enforced in part.
func (c *Compiled) Enforceable(f Features) []contract.Violation {
	var v violations
	p, unasked := &c.policy, contract.DefaultPolicy()
	if !f.Egress {
		for i := range p.EgressAllow {
			v.refuse(true, "this build does not let connections out", "egressAllow", i)
		}
	}
	v.refuse(!f.EgressAsk && p.EgressDefault != contract.Deny, "this build cannot ask about connections", "egressDefault")
	v.refuse(!f.UserRoot && p.User == contract.UserRoot, "this build does not run programs as root", "user")
	if !f.GateRules {
		for i := range p.Gate.Rules {
			v.refuse(true, "this build has no gate for calls", "gate", "rules", i)
		}
		v.refuse(p.Gate.Default != unasked.Gate.Default, "this build has no gate for calls", "gate", "default")
		v.refuse(p.Gate.DecisionMs != unasked.Gate.DecisionMs, "this build has no gate for calls", "gate", "decisionMs")
		v.refuse(p.Gate.HoldMs != unasked.Gate.HoldMs, "this build has no gate for calls", "gate", "holdMs")
	}
	v.refuse(!f.GateUnknown && p.Gate.Unknown != "", "this build does not analyse scripts", "gate", "unknown")
	v.refuse(!f.MemoryLimit, "this host cannot limit memory", "limits", "memoryBytes")
	// Cpus that nobody asked for are best effort, and named in the session detail.
	v.refuse(!f.CPULimit && p.IsExplicit("/limits/cpus"), "this host cannot limit cpus", "limits", "cpus")
	v.refuse(!f.PidsLimit, "this host cannot limit processes", "limits", "pids")
	return v.sorted()
}
