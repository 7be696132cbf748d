package main

import (
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

const (
	relistPoll = time.Millisecond
	// relistCalm is how long the collector and the handlers are given to come to rest after a
	// relist, so that all they do is paid for.
	relistCalm = 500 * time.Millisecond
)

// relist measures what it costs to load the unchanged collection again, from the moment at which
// the server has ended the watch with a 410. client-go backs off before it asks; of the wall time
// that part is `relist_waited_seconds`.
func relist(s *session) error {
	var asked atomic.Int64
	follower, err := s.sync(s.sources("").hearing(func() { asked.Store(monotonicNanoseconds()) }))
	if err != nil {
		return err
	}
	defer follower.close()
	if err := s.watch.control.post("/benchmark/wait-for-watch"); err != nil {
		return err
	}
	calls := follower.calls()
	collectGarbage()
	held, weighs := statusBytes("VmRSS"), restartPeak()
	asked.Store(0)
	expired := monotonicNanoseconds()
	s.watch.start()
	if err := s.watch.control.post("/benchmark/expire"); err != nil {
		return err
	}
	if err := waitUntilReplaced(follower); err != nil {
		return err
	}
	replaced := monotonicNanoseconds()
	time.Sleep(relistCalm)
	_, used := s.watch.read()
	extra := s.watch.found.Extra
	extra["relist_cpu_seconds"] = *used
	extra["relist_wall_seconds"] = time.Duration(replaced - expired).Seconds()
	extra["relist_waited_seconds"] = time.Duration(asked.Load() - expired).Seconds()
	extra["relist_handler_calls"] = float64(follower.calls() - calls)
	if peak := statusBytes("VmHWM"); weighs && held != nil && peak != nil {
		extra["relist_extra_peak_bytes"] = float64(*peak - *held)
	}
	return nil
}

// waitUntilReplaced returns when the store holds another decoding of every object: a relist puts
// them in even where nothing has changed.
func waitUntilReplaced(f *follower) error {
	store := f.informer.GetStore()
	left := store.List()
	for deadline := time.Now().Add(followTimeout); time.Now().Before(deadline); {
		for len(left) > 0 {
			object := left[len(left)-1]
			key, err := cache.MetaNamespaceKeyFunc(object)
			if err != nil {
				return err
			}
			if now, _, _ := store.GetByKey(key); now == object {
				break
			}
			left = left[:len(left)-1]
		}
		if len(left) == 0 {
			return nil
		}
		time.Sleep(relistPoll)
	}
	return errors.New("the collection was not loaded again")
}

func (f *follower) calls() int {
	calls := 0
	for _, each := range f.handlers {
		calls += each.added + each.updates
	}
	return calls
}
