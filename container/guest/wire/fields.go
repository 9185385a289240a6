package wire

func (m *Hello) code(c *coder) {
	c.u32(&m.PID)
	c.boolean(&m.Resumed)
	c.boolean(&m.OOMKnown)
	c.strs(&m.Calls, MaxCalls, MaxID)
}

func (m *Welcome) code(c *coder) { c.u32(&m.OwnerGraceMillis) }

func (r *Rlimit) code(c *coder) {
	c.u32(&r.Resource)
	c.u64(&r.Soft)
	c.u64(&r.Hard)
}

func codeRlimits(c *coder, v *[]Rlimit) {
	list(c, v, MaxRlimits, func(c *coder, r *Rlimit) { r.code(c) })
}

func (m *Exec) code(c *coder) {
	codeCall(c, &m.Call)
	c.strs(&m.Argv, MaxArgs, MaxString)
	c.strs(&m.Env, MaxArgs, MaxString)
	c.str(&m.Dir, MaxPath)
	c.u32(&m.UID)
	c.u32(&m.GID)
	c.boolean(&m.NoStdin)
	c.boolean(&m.TTY)
	c.u16(&m.Rows)
	c.u16(&m.Cols)
	codeRlimits(c, &m.Rlimits)
	c.str(&m.Home, MaxPath)
	if len(m.Argv) == 0 {
		c.fail("no program")
	}
}

func (m *Started) code(c *coder) { c.u32(&m.PID) }

func (m *Exited) code(c *coder) {
	o := uint8(m.Outcome)
	c.u8(&o)
	m.Outcome = Outcome(o)
	if m.Outcome == 0 || m.Outcome >= outcomeEnd {
		c.fail("unknown outcome")
	}
	c.u8(&m.Code)
	c.u8(&m.Signal)
	c.text(&m.Phase, MaxDetail)
	c.u32(&m.Errno)
	c.u64(&m.UserMicros)
	c.u64(&m.SysMicros)
	c.u64(&m.MaxRSS)
	c.u32(&m.Background)
	c.boolean(&m.OOMKnown)
	c.u32(&m.OOMKills)
}

func (*Idle) code(*coder) {}

func (m *Signal) code(c *coder) {
	codeCall(c, &m.Call)
	c.u8(&m.Signal)
}

func (m *Kill) code(c *coder) { codeCall(c, &m.Call) }

func codeCall(c *coder, v *string) {
	c.str(v, MaxID)
	if *v == "" {
		c.fail("no call id")
	}
}

func (*List) code(*coder) {}

func (p *ProcessInfo) code(c *coder) {
	c.str(&p.Call, MaxID)
	c.u32(&p.PID)
	c.u32(&p.PPID)
	c.u32(&p.UID)
	c.u8(&p.State)
	c.str(&p.Name, MaxProcName)
}

func (m *Processes) code(c *coder) {
	list(c, &m.Processes, MaxList, func(c *coder, p *ProcessInfo) { p.code(c) })
	c.boolean(&m.Truncated)
}

func (m *Probe) code(c *coder) {
	c.u32(&m.UID)
	c.u32(&m.GID)
	c.strs(&m.Env, MaxArgs, MaxString)
	c.str(&m.Dir, MaxPath)
	c.str(&m.Home, MaxPath)
	c.strs(&m.Writable, MaxProbes, MaxPath)
	c.strs(&m.ReadOnly, MaxProbes, MaxPath)
	codeRlimits(c, &m.Rlimits)
	c.u64(&m.MemoryBytes)
	c.u64(&m.PidsMax)
	c.u64(&m.CPUMicros)
	c.u64(&m.CPUPeriod)
	c.strs(&m.TCP, MaxProbes, MaxDetail)
	c.strs(&m.UDP, MaxProbes, MaxDetail)
	c.strs(&m.Names, MaxProbes, MaxDetail)
	c.strs(&m.HostSockets, MaxProbes, MaxPath)
	c.strs(&m.Waived, MaxProbes, MaxDetail)
}

func (r *ProbeResult) code(c *coder) {
	c.text(&r.Name, MaxDetail)
	c.boolean(&r.OK)
	c.boolean(&r.Waived)
	c.text(&r.Detail, MaxDetail)
}

func (m *Report) code(c *coder) {
	list(c, &m.Results, MaxProbes, func(c *coder, r *ProbeResult) { r.code(c) })
}

func (*Reset) code(*coder)    {}
func (*Shutdown) code(*coder) {}

func (m *Reply) code(c *coder) { c.u32(&m.Errno) }
