package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	readRepeats  = 15
	leastSeconds = 0.02 // of one timing
	quarter      = "tier=backend"
	nameLabel    = "app.kubernetes.io/name"
)

// timeReads times reads of cached pods through the generated lister, in microseconds of CPU per call,
// medians over repeats.
//
// Invariant: what is read is shared with the cache, as client-go gives it; nothing is copied.
func timeReads(s *session) error {
	follower, err := s.sync(s.sources(""))
	if err != nil {
		return err
	}
	defer follower.close()
	indexer := follower.informer.GetIndexer()
	if err := havePods(indexer); err != nil {
		return err
	}
	pods := listers.NewPodLister(indexer)
	extra := s.watch.found.Extra
	all, err := pods.List(labels.Everything())
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int { return compareKeys(a, b) })
	extra["read_key_us"] = perCall(len(all), func() {
		for _, pod := range all {
			_, _ = pods.Pods(pod.Namespace).Get(pod.Name)
		}
	})
	timeIndex(indexer, extra)
	few := nameLabel + "=" + all[0].Labels[nameLabel]
	if err := timeSelector(pods, "select_quarter", quarter, extra); err != nil {
		return err
	}
	if err := timeSelector(pods, "select_few", few, extra); err != nil {
		return err
	}
	read := 0
	extra["two_fields_typed_us"] = perCall(1, func() {
		found, _ := pods.List(labels.Everything())
		for _, pod := range found {
			read += len(pod.Spec.NodeName) + len(pod.Status.Phase)
		}
	})
	return nil
}

func havePods(indexer cache.Indexer) error {
	for _, object := range indexer.List() {
		if _, ok := object.(*corev1.Pod); !ok {
			return fmt.Errorf("reads are measured on typed pods, and this is %T", object)
		}
	}
	if len(indexer.ListKeys()) == 0 {
		return fmt.Errorf("there is nothing to be read")
	}
	return nil
}

// timeIndex reads every bucket of one index: by node, if there is one, else by namespace.
func timeIndex(indexer cache.Indexer, extra map[string]float64) {
	index := cache.NamespaceIndex
	if _, found := indexer.GetIndexers()[nodeIndex]; found {
		index = nodeIndex
	}
	buckets := indexer.ListIndexFuncValues(index)
	results := 0
	for _, bucket := range buckets {
		found, _ := indexer.ByIndex(index, bucket)
		results += len(found)
	}
	extra["read_index_results"] = float64(results) / float64(len(buckets))
	extra["read_index_us"] = perCall(len(buckets), func() {
		for _, bucket := range buckets {
			_, _ = indexer.ByIndex(index, bucket)
		}
	})
}

func timeSelector(
	pods listers.PodLister, name, text string, extra map[string]float64,
) error {
	selector, err := labels.Parse(text)
	if err != nil {
		return err
	}
	found, err := pods.List(selector)
	if err != nil {
		return err
	}
	extra[name+"_results"] = float64(len(found))
	extra[name+"_us"] = perCall(1, func() { _, _ = pods.List(selector) })
	return nil
}

// perCall runs what makes so many calls several times, and returns the median per call. One timing
// takes as many runs as a clock of microseconds, or of ticks, needs to tell them apart.
func perCall(calls int, run func()) float64 {
	run() // grows what grows once
	runs := 1
	for secondsOf(runs, run) < leastSeconds {
		runs *= 2
	}
	found := make([]float64, readRepeats)
	for repeat := range found {
		found[repeat] = secondsOf(runs, run) * 1e6 / float64(calls*runs)
	}
	return median(found)
}

func secondsOf(runs int, run func()) float64 {
	before := cpuSeconds()
	for range runs {
		run()
	}
	return cpuSeconds() - before
}

func compareKeys(a, b *corev1.Pod) int {
	return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
}
