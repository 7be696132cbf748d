package main

import (
	"errors"
	"math"
	"slices"
	"strconv"
)

// addLatencies says how long updates were on their way, from the server's send to the start of the
// handler; figures and percentiles are those of harness/latencies.py.
func (s *session) addLatencies(arrivals []arrival) error {
	sent, err := s.watch.control.sendTimes()
	if err != nil {
		return err
	}
	first, err := s.workload.firstUpdate()
	if err != nil {
		return err
	}
	var micros []float64
	for _, each := range arrivals {
		version, err := strconv.Atoi(each.resourceVersion)
		if err != nil {
			return err
		}
		if number := version - first; number >= 0 && number < len(sent) {
			micros = append(micros, float64(each.nanoseconds-sent[number])/1000)
		}
	}
	if len(micros) == 0 {
		return errors.New("none of the updates that were seen has a time of sending")
	}
	slices.Sort(micros)
	extra := s.watch.found.Extra
	extra["latency_p50_us"] = percentile(micros, 50)
	extra["latency_p90_us"] = percentile(micros, 90)
	extra["latency_p99_us"] = percentile(micros, 99)
	extra["latency_max_us"] = micros[len(micros)-1]
	extra["latency_counted"] = float64(len(micros))
	return nil
}

// percentile is the smallest value that so many percent of all do not exceed (nearest rank).
func percentile(ascending []float64, percent float64) float64 {
	rank := int(math.Ceil(float64(len(ascending)) * percent / 100))
	return ascending[max(rank, 1)-1]
}
