// Command bench measures realm against the floor of the host and against Podman
// itself, in one run on the same machine, and prints the ratios that
// docs/architecture.md sets bars for. Absolute times say more about the machine
// than about realm; the ratios carry over.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	rounds := flag.Int("n", 200, "rounds of the cheap measurements")
	bin := flag.String("bin", "bin", "directory of realm and realm-init")
	flag.Parse()
	ctx := context.Background()
	b, err := newBench(ctx, *bin)
	if err == nil {
		err = b.run(ctx, *rounds)
		b.close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A row compares one measurement with a baseline of the same run.
type row struct {
	what, got, base string
	ratio           float64
	bar             string
	met             bool
}

func (b *bench) run(ctx context.Context, n int) error {
	for _, measure := range []func(context.Context, int) error{
		b.runWall, b.sessionStart, b.idleMemory, b.stdoutRate, b.execLatency, b.execThroughput, // REST execs leave conmons behind: last
	} {
		if err := measure(ctx, n); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "what\tmeasured\tagainst\tratio\tbar\t")
	for _, r := range b.rows {
		verdict := "met"
		if !r.met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.2f\t%s\t%s\n", r.what, r.got, r.base, r.ratio, r.bar, verdict)
	}
	return w.Flush()
}

// atMost adds a row whose ratio must not exceed bar.
func (b *bench) atMost(what string, got, base time.Duration, against string, bar float64) {
	ratio := float64(got) / float64(base)
	b.rows = append(b.rows, row{what, ms(got), against + " " + ms(base), ratio, fmt.Sprintf("≤ %.2f", bar), ratio <= bar})
}

// atLeast adds a row whose ratio must reach bar.
func (b *bench) atLeast(what, got, base string, ratio, bar float64) {
	b.rows = append(b.rows, row{what, got, base, ratio, fmt.Sprintf("≥ %.2f", bar), ratio >= bar})
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d)/1e6) }

// interleave runs the variants round-robin n times, drops the first round, and
// returns the median of each: what disturbs the machine disturbs all of them.
func interleave(n int, variants ...func() error) ([]time.Duration, error) {
	times := make([][]time.Duration, len(variants))
	for i := range n + 1 {
		for v, f := range variants {
			began := time.Now()
			if err := f(); err != nil {
				return nil, fmt.Errorf("variant %d: %w", v, err)
			}
			if i > 0 {
				times[v] = append(times[v], time.Since(began))
			}
		}
	}
	medians := make([]time.Duration, len(variants))
	for v, ts := range times {
		slices.Sort(ts)
		medians[v] = ts[len(ts)/2]
	}
	return medians, nil
}
