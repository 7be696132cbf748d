package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

const (
	followTimeout = 600 * time.Second
	patience      = 5 // requests that fail before a peer gives up; client-go itself never would
)

// follower is an informer that runs, with its handlers.
type follower struct {
	informer cache.SharedIndexInformer
	handlers []*handler
	failed   chan error
	stop     context.CancelFunc
	stopped  sync.WaitGroup
}

func newFollower(s source, w workload) (*follower, error) {
	made := &follower{informer: s.informer(w.Indexes), failed: make(chan error, 1)}
	for range w.Handlers {
		next, err := newHandler(w)
		if err != nil {
			return nil, err
		}
		if _, err := made.informer.AddEventHandler(next); err != nil {
			return nil, err
		}
		made.handlers = append(made.handlers, next)
	}
	failures := 0
	return made, made.informer.SetWatchErrorHandlerWithContext(
		func(ctx context.Context, reflector *cache.Reflector, err error) {
			cache.DefaultWatchErrorHandler(ctx, reflector, err)
			if failures++; failures == patience {
				made.failed <- err
			}
		},
	)
}

// start lets the informer run until close.
func (f *follower) start() {
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	f.stopped.Go(func() { f.informer.RunWithContext(ctx) })
}

func (f *follower) close() {
	f.stop()
	f.stopped.Wait()
}

// synced waits until the store, and each handler, has had the whole collection.
func (f *follower) synced() error {
	if err := f.wait("sync", f.informer.HasSyncedChecker().Done()); err != nil {
		return err
	}
	for _, each := range f.handlers {
		if each.objects == 0 {
			continue
		}
		if err := f.wait("first call of handlers", each.synced); err != nil {
			return err
		}
	}
	return nil
}

// updated waits until each handler has had the last update.
func (f *follower) updated() error {
	for _, each := range f.handlers {
		if err := f.wait("last update", each.updated); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) wait(what string, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case err := <-f.failed:
		return fmt.Errorf("no %s: %w", what, err)
	case <-time.After(followTimeout):
		return fmt.Errorf("no %s after %s", what, followTimeout)
	}
}
