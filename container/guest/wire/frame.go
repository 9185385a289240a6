package wire

import "encoding/binary"

const (
	// Version is the protocol version, carried by every frame. The two ends
	// ship together, so anything but an equal version is refused.
	Version = 1

	// MaxPayload bounds the payload of one frame.
	MaxPayload = 1 << 20

	// MaxFiles bounds the descriptors beside one frame: stdin, stdout, stderr.
	MaxFiles = 3

	headerSize = 12
)

// Error says what is wrong with bytes that the peer sent. Its text never
// contains a value out of them.
type Error struct{ Reason string }

func (e *Error) Error() string { return "protocol: " + e.Reason }

// Frame is one frame. Files are descriptors that travel beside it.
type Frame struct {
	Type    Type
	ID      uint32
	Payload []byte
	Files   []int
}

// header is a decoded frame header.
type header struct {
	length int
	typ    Type
	files  int
	id     uint32
}

func appendHeader(b []byte, f Frame) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload)))
	b = append(b, byte(f.Type), byte(len(f.Files)), Version, 0)
	return binary.BigEndian.AppendUint32(b, f.ID)
}

// parseHeader decodes the first headerSize bytes of b.
func parseHeader(b []byte) (header, error) {
	h := header{typ: Type(b[4]), files: int(b[5]), id: binary.BigEndian.Uint32(b[8:])}
	length := binary.BigEndian.Uint32(b)
	switch {
	case b[6] != Version:
		return h, &Error{"version differs"}
	case length > MaxPayload:
		return h, &Error{"frame too large"}
	case !h.typ.known():
		return h, &Error{"unknown frame type"}
	case h.files > MaxFiles:
		return h, &Error{"too many descriptors"}
	case b[7] != 0:
		return h, &Error{"reserved byte is set"}
	}
	h.length = int(length)
	return h, nil
}

// Parse decodes the first frame of b and the number of bytes it takes. It
// returns 0 and no error when b does not hold a whole frame yet. The number of
// descriptors that the frame announces is returned apart: Parse sees bytes only.
func Parse(b []byte) (f Frame, files, n int, err error) {
	if len(b) < headerSize {
		return Frame{}, 0, 0, nil
	}
	h, err := parseHeader(b)
	if err != nil || len(b)-headerSize < h.length {
		return Frame{}, 0, 0, err
	}
	n = headerSize + h.length
	return Frame{Type: h.typ, ID: h.id, Payload: b[headerSize:n:n]}, h.files, n, nil
}

// Append encodes f without its descriptors.
func Append(b []byte, f Frame) []byte {
	return append(appendHeader(b, f), f.Payload...)
}
