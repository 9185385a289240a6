package contract

import "strconv"

func (c *ToolCall) faults() faults {
	switch {
	case c.Write != nil:
		return c.Write.faults().below(string(ToolWrite))
	case c.Read != nil:
		return checkPath(c.Read.Path, "path").below(string(ToolRead))
	case c.List != nil:
		return checkPath(c.List.Path, "path").below(string(ToolList))
	case c.Exec != nil:
		return c.Exec.faults().below(string(ToolExec))
	}
	return nil
}

func checkPath(path, key string) faults {
	return checkBytes(nil, len(path), MaxPathBytes, rulePathBytes, key)
}

func (c *WriteCall) faults() faults {
	return append(checkPath(c.Path, "path"), checkContent(c.Content, c.Encoding, "content")...)
}

func (c *ExecCall) faults() faults {
	fs := checkPath(c.Cwd, "cwd")
	for i, arg := range c.Argv {
		fs = checkBytes(fs, len(arg), MaxArgBytes, ruleArgBytes, "argv", strconv.Itoa(i))
	}
	for name, value := range c.Env {
		fs = checkBytes(fs, len(value), MaxArgBytes, ruleArgBytes, "env", name)
	}
	fs = checkBytes(fs, len(c.Script), MaxScriptBytes, ruleScriptBytes, "script")
	return append(fs, checkContent(c.Stdin, c.StdinEncoding, "stdin")...)
}

func (r *SessionRecord) faults() faults {
	fs := checkPath(r.WorkspaceRoot, "workspaceRoot")
	return checkBytes(fs, len(r.ControlSocketPath), MaxSocketPath, ruleSocketBytes, "controlSocketPath")
}

func (d *SessionDetail) faults() faults { return d.Record.faults().below("record") }

func (r *ToolResult) faults() faults {
	switch {
	case r.Read != nil:
		return checkContent(r.Read.Content, r.Read.Encoding, "content").below("read")
	case r.Status != nil:
		return r.Status.faults().below("status")
	case r.Stop != nil:
		return r.Stop.faults().below("stop")
	}
	return nil
}

func (p *Policy) faults() (fs faults) {
	for i, m := range p.Mounts {
		fs = append(fs, checkPath(m.Path, "path").below("mounts", strconv.Itoa(i))...)
	}
	for key, globs := range map[string][]string{"protect": p.Protect, "unprotect": p.Unprotect, "hide": p.Hide} {
		for i, glob := range globs {
			fs = append(fs, checkPath(glob, strconv.Itoa(i)).below(key)...)
		}
	}
	for i, rule := range p.Gate.Rules {
		at := strconv.Itoa(i)
		fs = append(fs, checkPath(rule.Path, "path").below("gate", "rules", at)...)
		for j, arg := range rule.Argv {
			fs = checkBytes(fs, len(arg), MaxArgBytes, ruleArgBytes, "gate", "rules", at, "argv", strconv.Itoa(j))
		}
	}
	return fs
}

func (e *AuditEntry) faults() faults {
	if e.Start != nil {
		return checkPath(e.Start.WorkspaceRoot, "workspaceRoot").below("start")
	}
	return nil
}

func (f *Frame) faults() faults {
	key := string(f.Type)
	switch {
	case f.Hello != nil:
		return f.Hello.Record.faults().below(key, "record")
	case f.Record != nil:
		return f.Record.Record.faults().below(key, "record")
	case f.Call != nil:
		return f.Call.Call.faults().below(key, "call")
	case f.Output != nil:
		return checkContent(f.Output.Data, f.Output.Encoding, "data").below(key)
	case f.Result != nil:
		return f.Result.faults().below(key)
	case f.Stdin != nil:
		return checkContent(f.Stdin.Data, f.Stdin.Encoding, "data").below(key)
	case f.Decision != nil && f.Decision.MutatedInput != nil:
		return f.Decision.MutatedInput.faults().below(key, "mutatedInput")
	case f.Event != nil && f.Event.Entry != nil:
		return f.Event.Entry.faults().below(key, "entry")
	}
	return nil
}
