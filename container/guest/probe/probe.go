// Package probe proves a session's isolation from inside, by trying what must
// not work.
//
// The probes run in a process that is started exactly like a program of the
// session: they see what a program sees. A probe passes when the kernel
// refused; an attempt without an answer proves nothing and fails.
package probe

import (
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"realm.dev/container/guest/wire"
)

// result is the outcome of one attempt: whether the isolation held, and a
// fixed phrase.
type result struct {
	ok     bool
	detail string
}

func pass(detail string) result { return result{true, detail} }
func bad(detail string) result  { return result{false, detail} }

// refused passes when err is an error, but not one that says that the attempt
// itself was malformed: that proves nothing.
func refused(err error) result {
	if err == nil {
		return bad("allowed")
	}
	for _, malformed := range []unix.Errno{unix.EINVAL, unix.EFAULT, unix.EBADF, unix.E2BIG} {
		if errors.Is(err, malformed) {
			return bad("not refused: " + errnoName(err))
		}
	}
	return pass("refused: " + errnoName(err))
}

// refusedWith passes when err is one of errnos: for calls that fail by
// themselves, so that only these numbers mean a refusal.
func refusedWith(err error, errnos ...unix.Errno) result {
	for _, errno := range errnos {
		if errors.Is(err, errno) {
			return refused(err)
		}
	}
	if err == nil {
		return bad("allowed")
	}
	return bad("not refused: " + errnoName(err))
}

func errnoName(err error) string {
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return "unknown error"
}

// worst is the first that failed, else the last.
func worst(results ...result) result {
	var last result
	for _, last = range results {
		if !last.ok {
			return last
		}
	}
	return last
}

// report collects results.
type report []wire.ProbeResult

func (r *report) add(name string, res result) {
	*r = append(*r, wire.ProbeResult{Name: name, OK: res.ok, Detail: res.detail})
}

// addEach adds one result for each subject.
func addEach[T any](r *report, name string, subjects []T, f func(T) result) {
	for i, s := range subjects {
		r.add(name+"/"+strconv.Itoa(i), f(s))
	}
}

// Main is the process of the probes. Its standard input is a socket on which
// it receives the request and sends the report.
func Main() int {
	descriptors := inheritedDescriptors(3)
	conn, err := wire.NewConn(0)
	if err != nil {
		return 1
	}
	f, err := conn.Read()
	if err != nil || f.Type != wire.TypeProbe {
		return 1
	}
	var m wire.Probe
	if wire.DecodeInto(&m, f.Payload) != nil {
		return 1
	}
	var r report
	r.add(wire.ProbeDescriptors, noDescriptors(descriptors))
	r.identity(&m.ProbeRequest)
	r.limits(&m.ProbeRequest)
	r.kernel(&m.ProbeRequest)
	r.network(&m.ProbeRequest)
	r.files(&m.ProbeRequest)
	if conn.Write(f.ID, &wire.Report{Results: r}) != nil {
		return 1
	}
	return 0
}

// Init is what can only be seen as init; inherited is how many descriptors the
// engine left to it.
func Init(inherited int) []wire.ProbeResult {
	var r report
	r.add(wire.ProbeInitCapabilities, initCapabilities(readStatus()))
	r.add(wire.ProbeInitDescriptors, noDescriptors(inherited))
	return r
}

// Waive marks the results that the request waived. A name without an index
// stands for all its subjects.
func Waive(results []wire.ProbeResult, names []string) []wire.ProbeResult {
	for i, r := range results {
		name, _, _ := strings.Cut(r.Name, "/")
		for _, n := range names {
			if n == r.Name || n == name {
				results[i].Waived = true
			}
		}
	}
	return results
}
