package wire

import "encoding/binary"

// coder encodes or decodes a message field by field. One list of fields per
// message serves both directions, so that the two cannot drift apart.
type coder struct {
	buf      []byte // decoding: what is left; encoding: what was written
	encoding bool
	err      error
}

func (c *coder) fail(reason string) {
	if c.err == nil {
		c.err = &Error{reason}
	}
}

// take returns the next n bytes when decoding, nil when they are not there.
func (c *coder) take(n int) []byte {
	if c.err != nil || n > len(c.buf) {
		c.fail("payload too short")
		return nil
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

func (c *coder) u8(v *uint8) {
	if c.encoding {
		c.buf = append(c.buf, *v)
	} else if b := c.take(1); b != nil {
		*v = b[0]
	}
}

func (c *coder) boolean(v *bool) {
	var b uint8
	if *v {
		b = 1
	}
	c.u8(&b)
	if b > 1 {
		c.fail("boolean out of range")
	}
	*v = b == 1
}

func (c *coder) u16(v *uint16) {
	if c.encoding {
		c.buf = binary.BigEndian.AppendUint16(c.buf, *v)
	} else if b := c.take(2); b != nil {
		*v = binary.BigEndian.Uint16(b)
	}
}

func (c *coder) u32(v *uint32) {
	if c.encoding {
		c.buf = binary.BigEndian.AppendUint32(c.buf, *v)
	} else if b := c.take(4); b != nil {
		*v = binary.BigEndian.Uint32(b)
	}
}

func (c *coder) u64(v *uint64) {
	if c.encoding {
		c.buf = binary.BigEndian.AppendUint64(c.buf, *v)
	} else if b := c.take(8); b != nil {
		*v = binary.BigEndian.Uint64(b)
	}
}

func (c *coder) str(v *string, limit int) {
	n := uint32(len(*v))
	c.u32(&n)
	if uint64(n) > uint64(limit) {
		c.fail("string too long")
		return
	}
	if c.encoding {
		c.buf = append(c.buf, *v...)
	} else if b := c.take(int(n)); b != nil {
		*v = string(b)
	}
}

// text codes a string that people get to see: printable ASCII only.
func (c *coder) text(v *string, limit int) {
	c.str(v, limit)
	for _, b := range []byte(*v) {
		if b < ' ' || b > '~' {
			c.fail("text is not printable")
		}
	}
}

// list codes a list of at most limit elements, each of which takes at least
// one byte: a count above the bytes left is refused before it is allocated.
func list[T any](c *coder, v *[]T, limit int, element func(*coder, *T)) {
	n := uint32(len(*v))
	c.u32(&n)
	if uint64(n) > uint64(limit) {
		c.fail("list too long")
		return
	}
	if c.encoding {
		for i := range *v {
			element(c, &(*v)[i])
		}
		return
	}
	if uint64(n) > uint64(len(c.buf)) {
		c.fail("payload too short")
		return
	}
	*v = nil
	for range n {
		var e T
		if element(c, &e); c.err != nil {
			return
		}
		*v = append(*v, e)
	}
}

func (c *coder) strs(v *[]string, count, length int) {
	list(c, v, count, func(c *coder, s *string) { c.str(s, length) })
}
