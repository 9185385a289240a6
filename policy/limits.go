package policy

// Upper bounds. They are what the kernel can hold, or far beyond any use: a
// number above them is a mistake in the file, and must not wrap around.
const (
	maxBytes     = 1 << 50
	maxCPUs      = 4096
	minCPUs      = 0.01 // the smallest quota the kernel takes: 1 ms of 100 ms
	maxPids      = 1 << 22
	maxOpenFiles = 1 << 20
	maxMs        = 7 * 24 * 3600 * 1000 // a week
)

func (c *Compiled) checkLimits(v *violations) {
	l := &c.policy.Limits
	within(v, l.MemoryBytes, maxBytes, "limits", "memoryBytes")
	within(v, l.Pids, maxPids, "limits", "pids")
	within(v, l.OpenFiles, maxOpenFiles, "limits", "openFiles")
	within(v, l.TmpBytes, maxBytes, "limits", "tmpBytes")
	within(v, l.OutputBytes, maxBytes, "limits", "outputBytes")
	within(v, l.ExecMs, maxMs, "limits", "execMs")
	// Written so that NaN is refused too.
	v.refuse(!(l.CPUs >= minCPUs && l.CPUs <= maxCPUs), "must be from 0.01 to 4096", "limits", "cpus")
	within(v, c.policy.StartupBudgetMs, maxMs, "startupBudgetMs")
	within(v, c.policy.ToolQueueMs, maxMs, "toolQueueMs")

	g := &c.policy.Gate
	within(v, g.DecisionMs, maxMs, "gate", "decisionMs")
	within(v, g.HoldMs, maxMs, "gate", "holdMs")
	v.refuse(g.HoldMs > 0 && g.HoldMs >= g.DecisionMs, "must be shorter than decisionMs", "gate", "holdMs")
}

// within checks that a limit is positive, never unlimited, and below a bound.
func within(v *violations, value, bound int64, at ...any) {
	v.refuse(value <= 0, "must be greater than 0", at...)
	v.refuse(value > bound, "is larger than any limit can be", at...)
}
