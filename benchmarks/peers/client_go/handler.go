package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// arrival says when an update reached a handler.
type arrival struct {
	resourceVersion string
	nanoseconds     int64
}

// handler is what a program registers. An informer calls each of its handlers in a goroutine of
// that handler's own, so nothing here is locked; others look only after a channel was closed.
type handler struct {
	objects int
	last    string // the resource version of the last update
	work    func(object any)
	finish  func() // closes updated, once the work that it caused is done too

	added, updates int
	arrivals       []arrival // noted only if it has room for all
	synced         chan struct{}
	updated        chan struct{}
}

func newHandler(w workload) (*handler, error) {
	made := &handler{
		objects: w.Objects,
		last:    w.LastResourceVersion,
		synced:  make(chan struct{}),
		updated: make(chan struct{}),
	}
	made.finish = func() { close(made.updated) }
	seen := 0 // of no use, but what is read into nothing is not read
	switch w.Handler {
	case "metadata":
		made.work = func(object any) {
			seen += len(object.(metav1.Object).GetName()) + len(phaseOf(object))
		}
	case "object":
		// It is decoded already, and shared with the cache and with every other handler.
		made.work = func(object any) { seen += sizeOf(object) }
	case "queue":
		made.work, made.finish = enqueue(made.updated)
	default:
		return nil, fmt.Errorf("no such handler: %q", w.Handler)
	}
	return made, nil
}

// enqueue makes a handler's work of a queue with one worker, as controllers have it.
func enqueue(worked chan struct{}) (work func(any), finish func()) {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[string](),
	)
	go func() {
		for {
			item, shutdown := queue.Get()
			if shutdown {
				close(worked)
				return
			}
			queue.Forget(item)
			queue.Done(item)
		}
	}()
	work = func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	return work, queue.ShutDown // what waits is still worked off before a get says so
}

func (h *handler) OnAdd(any, bool) {
	h.added++
	if h.added == h.objects {
		close(h.synced)
	}
}

func (h *handler) OnUpdate(_, object any) {
	version := object.(metav1.Object).GetResourceVersion()
	if cap(h.arrivals) > 0 { // the clock is read before anything else is done
		h.arrivals = append(h.arrivals, arrival{version, monotonicNanoseconds()})
	}
	h.updates++
	h.work(object)
	if version == h.last {
		h.finish()
	}
}

func (h *handler) OnDelete(any) {}
