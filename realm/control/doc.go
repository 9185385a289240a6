// Package control serves one session on a unix socket: its record, its detail,
// tool calls with their output, and stop, as HTTP/1.1 with JSON bodies.
//
// What the socket trusts is the kernel: the directory and the socket are
// closed to everybody else from the first moment, and SO_PEERCRED must name
// the owner before a byte of HTTP is read. What it does not trust is the
// bytes: sizes, times, counts and queues are bounded, one connection carries
// one request, and a reader that does not read is cut off.
//
// The server knows a session only by the interface [Session]; package realm
// implements it.
package control
