package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"k8s.io/client-go/util/workqueue"
)

const delayOfQueues = time.Hour

// timings make a fresh queue, and what is to be timed with it.
var timings = map[string]func(keys []string) (timed, end func()){
	"waiting_us": func(keys []string) (timed, end func()) {
		queue := workqueue.NewTyped[string]()
		return func() { addAll(queue, keys); takeAll(queue, keys) }, queue.ShutDown
	},
	"passing_us": func(keys []string) (timed, end func()) {
		queue := workqueue.NewTyped[string]()
		return func() { passAll(queue, keys) }, queue.ShutDown
	},
	"duplicate_us": func(keys []string) (timed, end func()) {
		queue := workqueue.NewTyped[string]()
		addAll(queue, keys)
		return func() { addAll(queue, keys) }, queue.ShutDown
	},
	"delayed_us": func(keys []string) (timed, end func()) {
		queue := workqueue.NewTypedDelayingQueue[string]()
		return func() { delayAll(queue, keys) }, queue.ShutDown
	},
}

// queue times client-go's typed queues in microseconds of CPU time of the whole process (its
// garbage collector included) per key: one goroutine, no metrics, medians over repeats with a fresh
// queue each, keys that exist before. Delays alone need the queue that has them.
func queue(arguments []string) error {
	flags := flag.NewFlagSet("queue", flag.ExitOnError)
	count := flags.Int("keys", 100_000, "how many")
	repeats := flags.Int("repeats", 7, "fresh queues")
	cpu := flags.Int("cpu", -1, "where to run; -1 for anywhere")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *cpu >= 0 {
		if err := pinTo(*cpu); err != nil {
			return fmt.Errorf("--cpu: %w", err)
		}
	}
	keys := make([]string, *count)
	for number := range keys {
		keys[number] = fmt.Sprintf("namespace-%d/name-%d", number%97, number)
	}
	figures := map[string]float64{}
	for name, prepare := range timings {
		figures[name] = perKey(prepare, keys, *repeats)
	}
	figures["item_us"] = figures["waiting_us"] // client-go has no other way to take a key
	return json.NewEncoder(os.Stdout).Encode(figures)
}

func perKey(prepare func([]string) (timed, end func()), keys []string, repeats int) float64 {
	found := make([]float64, repeats)
	for repeat := range found {
		timed, end := prepare(keys)
		runtime.GC()
		before := cpuSeconds()
		timed()
		found[repeat] = (cpuSeconds() - before) * 1e6 / float64(len(keys))
		end()
	}
	return median(found)
}

func addAll(queue workqueue.TypedInterface[string], keys []string) {
	for _, key := range keys {
		queue.Add(key)
	}
}

func takeAll(queue workqueue.TypedInterface[string], keys []string) {
	for range keys {
		key, _ := queue.Get()
		queue.Done(key)
	}
}

func passAll(queue workqueue.TypedInterface[string], keys []string) {
	for _, key := range keys {
		queue.Add(key)
		taken, _ := queue.Get()
		queue.Done(taken)
	}
}

// delayAll hands keys over to the queue's own goroutine; the thousand that may still lie between
// the two when the last is handed over are not paid for.
func delayAll(queue workqueue.TypedDelayingInterface[string], keys []string) {
	for _, key := range keys {
		queue.AddAfter(key, delayOfQueues)
	}
}
