package main

import "time"

// stopwatch fills a measurement as harness/phases.py's Phases does: memory is read and garbage
// collected outside the timed spans.
type stopwatch struct {
	found   measurement
	control *control

	wall time.Time
	cpu  float64

	collections uint32 // before the updates
}

func newStopwatch(peer string, control *control) *stopwatch {
	return &stopwatch{
		found:   measurement{Peer: peer, Extra: map[string]float64{}},
		control: control,
	}
}

// begin starts the sync's clocks; nothing was asked of the server yet.
func (s *stopwatch) begin() {
	collectGarbage()
	s.found.RSSBeforeBytes = statusBytes("VmRSS")
	s.start()
}

// synced stops them and weighs the cache.
func (s *stopwatch) synced(objects int) {
	s.found.SyncWallSeconds, s.found.SyncCPUSeconds = s.read()
	s.found.Objects = objects
	s.found.PeakRSSBytes = statusBytes("VmHWM")
	collectGarbage()
	s.found.RSSAfterBytes = statusBytes("VmRSS")
}

// releaseUpdates starts the updates' clocks and lets the server send, once it has a watch of ours.
func (s *stopwatch) releaseUpdates() error {
	if err := s.control.post("/benchmark/wait-for-watch"); err != nil {
		return err
	}
	s.collections = collections()
	s.start()
	return s.control.post("/benchmark/release")
}

// updated stops them; so many updates reached the first handler.
func (s *stopwatch) updated(sent, seen int) {
	s.found.UpdateWallSeconds, s.found.UpdateCPUSeconds = s.read()
	s.found.Extra["update_collections"] = float64(collections() - s.collections)
	s.found.Updates = sent
	s.found.UpdatesSeen = &seen
}

// finished closes the record; a run that restarted the peak has the earlier one in it already.
func (s *stopwatch) finished() measurement {
	if peak := statusBytes("VmHWM"); peak != nil {
		if s.found.PeakRSSBytes == nil || *peak > *s.found.PeakRSSBytes {
			s.found.PeakRSSBytes = peak
		}
	}
	s.found.LongestGCPauseSeconds = longestGCPause()
	return s.found
}

func (s *stopwatch) start() {
	s.wall, s.cpu = time.Now(), cpuSeconds()
}

func (s *stopwatch) read() (wall, cpu *float64) {
	seconds, used := time.Since(s.wall).Seconds(), cpuSeconds()-s.cpu
	return &seconds, &used
}
