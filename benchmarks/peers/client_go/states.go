package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// states prints each change of a cache of ConfigMaps as a line, until it is killed: a name and its
// resource version, or a name and "-". It says when a cache is as a server is, and times nothing.
func states(arguments []string) error {
	flags := flag.NewFlagSet("states", flag.ExitOnError)
	text := flags.String("workload", "{}", "the server, as JSON")
	namespace := flags.String("namespace", "default", "what to follow")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	workload, err := readWorkload(*text)
	if err != nil {
		return err
	}
	workload.APIVersion, workload.Resource, workload.Kind = "v1", "configmaps", "ConfigMap"
	made, err := newSources(peerJSON, workload)
	if err != nil {
		return err
	}
	source := made(*namespace)
	informer := cache.NewSharedIndexInformer(source.listerWatcher, &corev1.ConfigMap{}, time.Duration(0), nil)
	show := func(found any) {
		if object, ok := found.(*corev1.ConfigMap); ok {
			fmt.Println(object.Name, object.ResourceVersion)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    show,
		UpdateFunc: func(_, found any) { show(found) },
		DeleteFunc: func(gone any) {
			if last, ok := gone.(cache.DeletedFinalStateUnknown); ok {
				gone = last.Obj
			}
			if object, ok := gone.(*corev1.ConfigMap); ok {
				fmt.Println(object.Name, "-")
			}
		},
	})
	if err != nil {
		return err
	}
	informer.RunWithContext(context.Background())
	return nil
}
