// Package pid1 is realm-init: the first process of a session's container.
//
// It dials out to realm and runs programs for it. Three roles share the one
// static binary:
//
//   - init (PID 1, uid 0 of the user namespace) holds the link, hands each
//     call to a shim, reaps what the kernel gives it, and kills trees;
//   - a shim (uid 0, started ahead of need) is the subreaper of one call at a
//     time: whatever a program leaves behind, however often it forks, stays
//     below its shim, so that a call's processes are known exactly;
//   - the probe (the programs' uid) tries what must not work.
//
// A shim is strictly sequential and knows nothing of signals, kills and lists:
// init does these from outside with CAP_KILL. That keeps a shim at one busy
// thread and lets an empty one serve the next call.
package pid1
