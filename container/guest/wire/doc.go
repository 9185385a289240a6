// Package wire is the protocol between realm and realm-init: frames over one
// unix stream socket, with descriptors passed beside them.
//
// A frame is a 12-byte header (payload length, type, number of descriptors,
// protocol version, identifier) and a payload of fixed-width integers and
// length-prefixed strings. Every length and every count is bounded before
// anything is allocated for it, and a payload that is accepted encodes back to
// the same bytes. Neither end trusts the other: whatever arrives, decoding
// ends in a value or in an [*Error], never in a panic.
package wire
