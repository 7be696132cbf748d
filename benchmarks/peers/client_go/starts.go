package main

import (
	"fmt"
	"slices"
	"time"
)

const startRepeats = 5

// timeStarts measures what it costs until so many informers, each of one small namespace, have
// their objects: they share a client, as those of a factory do. Medians over repeats, after one
// informer that is not counted.
func timeStarts(s *session) error {
	if _, _, err := s.startMany(1); err != nil {
		return err
	}
	extra := s.watch.found.Extra
	for _, count := range []int{1, 10, 50} {
		var walls, cpus []float64
		for range startRepeats {
			wall, cpu, err := s.startMany(count)
			if err != nil {
				return err
			}
			walls, cpus = append(walls, wall*1e3), append(cpus, cpu*1e3)
		}
		extra[fmt.Sprintf("start_%d_wall_ms", count)] = median(walls)
		extra[fmt.Sprintf("start_%d_cpu_ms", count)] = median(cpus)
	}
	return nil
}

// startMany starts informers and stops them again; the stop is not measured.
func (s *session) startMany(count int) (wall, cpu float64, err error) {
	return s.startAnd(count, func() {})
}

// startAnd starts informers, calls a function when all have synced, and stops them again. What the
// function takes is not measured.
func (s *session) startAnd(count int, then func()) (wall, cpu float64, err error) {
	small := s.workload
	small.Objects = 0 // of a namespace; unknown, and waited for by the store alone
	var followers []*follower
	collectGarbage()
	began, used := time.Now(), cpuSeconds()
	for number := range count {
		next, err := newFollower(s.sources(fmt.Sprintf("small-%d", number)), small)
		if err != nil {
			return 0, 0, err
		}
		next.start()
		defer next.close()
		followers = append(followers, next)
	}
	for _, each := range followers {
		if err := each.synced(); err != nil {
			return 0, 0, err
		}
	}
	wall, cpu = time.Since(began).Seconds(), cpuSeconds()-used
	then()
	return wall, cpu, nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
