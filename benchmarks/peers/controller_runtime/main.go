// Measures controller-runtime: 10,000 ConfigMaps reconciled after a start by a reconciler that does
// nothing, with one worker, beside the same informer without a controller.
//
// In goes the server's URL, the number of objects and of repeats; out comes one line of JSON: CPU
// time of the whole process (its garbage collector included) per object, medians over the repeats.
// With `follow` it reconciles pods until it is ended, and is measured from outside; with `webhooks`
// it also answers reviews.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sort"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func cpuMicroseconds() float64 {
	var spent unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &spent))
	return float64(spent.Nano()) / 1e3
}

// JSON for both sides: the embedded server speaks nothing else.
func connection(url string) *rest.Config {
	content := rest.ContentConfig{ContentType: "application/json"}
	return &rest.Config{Host: url, QPS: -1, ContentConfig: content}
}

func syncAlone(url string, objects int) {
	ctx, cancel := context.WithCancel(context.Background())
	informers, err := cache.New(connection(url), cache.Options{})
	must(err)
	stopped := make(chan error, 1)
	go func() { stopped <- informers.Start(ctx) }()
	_, err = informers.GetInformer(ctx, &corev1.ConfigMap{})
	must(err)
	if !informers.WaitForCacheSync(ctx) {
		panic("the cache did not sync")
	}
	cancel()
	must(<-stopped)
}

func syncAndReconcile(url string, objects int) {
	ctx, cancel := context.WithCancel(context.Background())
	anyName := true
	manager, err := ctrl.NewManager(connection(url), ctrl.Options{
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &anyName},
	})
	must(err)
	missing := objects // one worker: nobody else counts
	done := make(chan struct{})
	noop := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		missing--
		if missing == 0 {
			close(done)
		}
		return reconcile.Result{}, nil
	})
	options := controller.Options{MaxConcurrentReconciles: 1}
	must(ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).WithOptions(options).Complete(noop))
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(ctx) }()
	select {
	case <-done:
	case err := <-stopped:
		panic(err)
	}
	cancel()
	must(<-stopped)
}

func measure(work func(string, int), url string, objects int) (float64, float64) {
	runtime.GC()
	before, began := cpuMicroseconds(), time.Now()
	work(url, objects)
	wall := time.Since(began).Seconds() * 1e3
	return (cpuMicroseconds() - before) / float64(objects), wall
}

func median(found []float64) float64 {
	sort.Float64s(found)
	middle := len(found) / 2
	if len(found)%2 == 1 {
		return found[middle]
	}
	return (found[middle-1] + found[middle]) / 2
}

func argument(position int) int {
	value, err := strconv.Atoi(os.Args[position])
	must(err)
	return value
}

func main() {
	ctrl.SetLogger(logr.Discard())
	if os.Args[1] == "follow" {
		must(runFollower(os.Args[2:]))
		return
	}
	if os.Args[1] == "webhooks" {
		must(serveWebhooks(os.Args[2]))
		return
	}
	url, objects, repeats := os.Args[1], argument(2), argument(3)
	measure(syncAlone, url, objects) // what is made once
	var alone, controlled, overhead, walls []float64
	for range repeats {
		without, _ := measure(syncAlone, url, objects)
		with, wall := measure(syncAndReconcile, url, objects)
		alone = append(alone, without)
		controlled = append(controlled, with)
		overhead = append(overhead, with-without)
		walls = append(walls, wall)
	}
	figures := map[string]float64{
		"informer_us":   median(alone),
		"controlled_us": median(controlled),
		"overhead_us":   median(overhead),
		"reconciled_ms": median(walls),
	}
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
