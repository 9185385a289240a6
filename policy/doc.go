// Package policy turns a policy document into decisions.
//
// It is pure: bytes and facts in, decisions out. It reads no file, no clock and
// no network, so that the mounts, the tools, the gate and `realm policy explain`
// all ask the same code and get the same answer.
//
// Compile checks what the schema cannot say and refuses whatever could not be
// enforced as written. What it returns is immutable and safe for concurrent use.
package policy
