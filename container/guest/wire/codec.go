package wire

// Encode returns the payload of m, or an [*Error] when m is over a limit.
func Encode(m Message) ([]byte, error) {
	c := coder{encoding: true}
	m.code(&c)
	if c.err == nil && len(c.buf) > MaxPayload {
		c.fail("frame too large")
	}
	return c.buf, c.err
}

// Decode decodes the payload of a frame of type t.
func Decode(t Type, payload []byte) (Message, error) {
	m := message(t)
	if m == nil {
		return nil, &Error{"unknown frame type"}
	}
	return m, DecodeInto(m, payload)
}

// DecodeInto decodes payload into m, which has to be zero.
func DecodeInto(m Message, payload []byte) error {
	c := coder{buf: payload}
	m.code(&c)
	if c.err == nil && len(c.buf) > 0 {
		c.fail("payload too long")
	}
	return c.err
}

func message(t Type) Message {
	switch t {
	case TypeHello:
		return &Hello{}
	case TypeWelcome:
		return &Welcome{}
	case TypeExec:
		return &Exec{}
	case TypeStarted:
		return &Started{}
	case TypeExited:
		return &Exited{}
	case TypeIdle:
		return &Idle{}
	case TypeSignal:
		return &Signal{}
	case TypeKill:
		return &Kill{}
	case TypeList:
		return &List{}
	case TypeProcesses:
		return &Processes{}
	case TypeProbe:
		return &Probe{}
	case TypeReport:
		return &Report{}
	case TypeReset:
		return &Reset{}
	case TypeShutdown:
		return &Shutdown{}
	case TypeReply:
		return &Reply{}
	default:
		return nil
	}
}
