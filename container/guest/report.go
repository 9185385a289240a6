package guest

import (
	"context"

	"realm.dev/container/guest/wire"
)

// ProcessInfo is one process that belongs to a call. Name is what the process
// calls itself: untrusted text.
type ProcessInfo = wire.ProcessInfo

// ProcessList is the processes of all calls.
type ProcessList = wire.Processes

// Processes lists the processes of all calls, background ones included.
func (l *Link) Processes(ctx context.Context) (ProcessList, error) {
	m, err := l.call(ctx, wire.TypeProcesses, &wire.List{})
	if err != nil {
		return ProcessList{}, err
	}
	return *m.(*wire.Processes), nil
}

// ProbeRequest says what the probes have to prove.
type ProbeRequest = wire.ProbeRequest

// ProbeResult is the outcome of one probe.
type ProbeResult = wire.ProbeResult

// ProbeReport is the outcome of all probes.
type ProbeReport struct{ Results []ProbeResult }

// Failed returns the probes that failed and were not waived.
func (r ProbeReport) Failed() []ProbeResult {
	var failed []ProbeResult
	for _, p := range r.Results {
		if !p.OK && !p.Waived {
			failed = append(failed, p)
		}
	}
	return failed
}

// Probe has init prove the isolation from inside. A report without a single
// result is an error: nothing would be proven.
func (l *Link) Probe(ctx context.Context, r ProbeRequest) (ProbeReport, error) {
	m, err := l.call(ctx, wire.TypeReport, &wire.Probe{ProbeRequest: r})
	if err != nil {
		return ProbeReport{}, err
	}
	results := m.(*wire.Report).Results
	if len(results) == 0 {
		return ProbeReport{}, &ProtocolError{Reason: "empty report"}
	}
	return ProbeReport{results}, nil
}
