// Measures client-go's typed work queue: add, get and done, by one goroutine, without metrics.
//
// In goes the number of keys and of repeats; out comes one line of JSON, microseconds of CPU time
// of the whole process (its garbage collector included) per key, medians over the repeats.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"syscall"

	"k8s.io/client-go/util/workqueue"
)

func cpuMicroseconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := float64(usage.Utime.Sec + usage.Stime.Sec)
	return seconds*1e6 + float64(usage.Utime.Usec+usage.Stime.Usec)
}

func waiting(keys []string) {
	queue := workqueue.NewTyped[string]()
	for _, key := range keys {
		queue.Add(key)
	}
	for range keys {
		key, _ := queue.Get()
		queue.Done(key)
	}
	queue.ShutDown()
}

func passing(keys []string) {
	queue := workqueue.NewTyped[string]()
	for _, key := range keys {
		queue.Add(key)
		taken, _ := queue.Get()
		queue.Done(taken)
	}
	queue.ShutDown()
}

func measure(work func([]string), keys []string, repeats int) float64 {
	found := make([]float64, repeats)
	for i := range found {
		runtime.GC()
		before := cpuMicroseconds()
		work(keys)
		found[i] = (cpuMicroseconds() - before) / float64(len(keys))
	}
	sort.Float64s(found)
	return found[len(found)/2]
}

func argument(position int) int {
	value, err := strconv.Atoi(os.Args[position])
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	keys := make([]string, argument(1))
	repeats := argument(2)
	for i := range keys {
		keys[i] = fmt.Sprintf("namespace-%d/name-%d", i%97, i)
	}
	figures := map[string]float64{
		"waiting_us": measure(waiting, keys, repeats),
		"passing_us": measure(passing, keys, repeats),
	}
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		panic(err)
	}
}
