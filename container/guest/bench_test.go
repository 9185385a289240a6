package guest

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// quantiles reports the median and the 99th percentile of samples.
func quantiles(b *testing.B, samples []time.Duration) {
	slices.Sort(samples)
	b.ReportMetric(float64(samples[len(samples)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(samples[len(samples)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkHostFork is the floor: fork and exec on the host.
func BenchmarkHostFork(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	var samples []time.Duration
	for b.Loop() {
		start := time.Now()
		pid, err := syscall.ForkExec("/usr/bin/true", []string{"true"}, &syscall.ProcAttr{Files: []uintptr{null.Fd(), null.Fd(), null.Fd()}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			b.Fatal(err)
		}
		samples = append(samples, time.Since(start))
	}
	quantiles(b, samples)
}

func runTrue(link *Link, id string) error {
	ctx := context.Background()
	p, err := link.Exec(ctx, ExecRequest{
		ID: id, Argv: []string{"/usr/bin/true"}, Dir: "/", UID: programUID, GID: programUID, HostUID: hostUID, HostGID: hostUID, NoStdin: true,
	})
	if err != nil {
		return err
	}
	defer p.closeFiles()
	_, err = p.Wait(ctx)
	return err
}

// BenchmarkExec runs true in a container, one at a time.
func BenchmarkExec(b *testing.B) {
	box := newBox(b)
	var samples []time.Duration
	n := 0
	for b.Loop() {
		start := time.Now()
		n++
		if err := runTrue(box.link, fmt.Sprint(n)); err != nil {
			b.Fatal(err)
		}
		samples = append(samples, time.Since(start))
	}
	quantiles(b, samples)
}

// BenchmarkExec16 runs true from 16 callers at once.
func BenchmarkExec16(b *testing.B) {
	box := newBox(b)
	jobs := make(chan int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := range jobs {
				if err := runTrue(box.link, fmt.Sprint(n)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	n := 0
	start := time.Now()
	for b.Loop() {
		n++
		jobs <- n
	}
	close(jobs)
	wg.Wait()
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "calls/s")
}

// BenchmarkOutput reads what a program writes, 100 MiB a time.
func BenchmarkOutput(b *testing.B) {
	box := newBox(b)
	const size = 100 << 20
	b.SetBytes(size)
	buf := make([]byte, 256<<10)
	for b.Loop() {
		r := box.request("head", "-c", fmt.Sprint(size), "/dev/zero")
		r.NoStdin = true
		p := box.exec(r)
		n, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{p.Stdout}, buf)
		if err != nil || n != size {
			b.Fatalf("%d bytes, %v", n, err)
		}
		box.wait(p)
		p.closeFiles()
	}
}
