package main

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	restInformers = 40
	settleTime    = 2 * time.Second
)

// timeRest measures what informers cost after all have synced and while nothing changes, as
// peers/own_rest.py does.
func timeRest(s *session) error {
	extra := s.watch.found.Extra
	wall, cpu, err := s.startAnd(restInformers, func() {
		collectGarbage()
		time.Sleep(settleTime)
		began, used, woken := time.Now(), cpuSeconds(), wakeUps()
		time.Sleep(time.Duration(s.workload.RestSeconds * float64(time.Second)))
		passed := time.Since(began).Seconds()
		extra["rest_cpu_ms_per_second"] = (cpuSeconds() - used) * 1e3 / passed
		extra["rest_wakeups_per_second"] = float64(wakeUps()-woken) / passed
		if bytes := statusBytes("VmRSS"); bytes != nil {
			extra["rest_megabytes"] = float64(*bytes) / 1e6
		}
	})
	extra["rest_sync_wall_ms"], extra["rest_sync_cpu_ms"] = wall*1e3, cpu*1e3
	return err
}

// wakeUps counts how often a thread of this process has waited for something.
func wakeUps() int64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it has no way to fail
	}
	return usage.Nvcsw
}
