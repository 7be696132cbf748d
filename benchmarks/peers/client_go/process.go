package main

import (
	"bufio"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const gcPauses = "/sched/pauses/total/gc:seconds"

// pinTo starts this program anew on one CPU, if it is not there already. A new start is needed:
// the runtime has chosen the number of its threads before main, by the CPUs it was given.
func pinTo(cpu int) error {
	var wanted, allowed unix.CPUSet
	wanted.Set(cpu)
	if err := unix.SchedGetaffinity(0, &allowed); err != nil || allowed == wanted {
		return err
	}
	runtime.LockOSThread() // the affinity is a thread's, and goes with it through exec
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return err
	}
	program, err := exec.LookPath(os.Args[0])
	if err != nil {
		return err
	}
	return unix.Exec(program, os.Args, os.Environ())
}

// cpuSeconds is user plus system time of the whole process, the garbage collector's included. Not
// Getrusage, whose times some kernels count in ticks of several milliseconds.
func cpuSeconds() float64 {
	var spent unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &spent); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(spent.Nano()).Seconds()
}

// monotonicNanoseconds reads the clock by which the server says when it sent; Go's own time has no
// reading of it that another process could compare.
func monotonicNanoseconds() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// statusBytes reads a line of /proc/self/status: VmRSS is memory now, VmHWM its peak.
func statusBytes(field string) *int64 {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return nil
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) > 1 && words[0] == field+":" {
			if kilobytes, err := strconv.ParseInt(words[1], 10, 64); err == nil {
				kilobytes *= 1024
				return &kilobytes
			}
		}
	}
	return nil
}

// restartPeak makes VmHWM begin again at the memory of now; false where Linux does not let us.
func restartPeak() bool {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
}

// collectGarbage gives back to the system all that can be given back.
func collectGarbage() {
	runtime.GC()
	debug.FreeOSMemory()
}

// collections is how often the collector has run so far.
func collections() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumGC
}

// longestGCPause is the longest time for which the collector has stopped the whole program so far,
// as the lower edge of the runtime's own histogram: rounded in Go's favour, by a quarter at most.
func longestGCPause() *float64 {
	sample := []metrics.Sample{{Name: gcPauses}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return nil
	}
	longest := 0.0
	histogram := sample[0].Value.Float64Histogram()
	for bucket, count := range histogram.Counts {
		if edge := histogram.Buckets[bucket]; count > 0 && !math.IsInf(edge, 0) {
			longest = edge
		}
	}
	return &longest
}
