package podman

// oldCalls: this architecture has none.
func oldCalls() []try { return nil }
