package main

import (
	"bufio"
	"context"
	"errors"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// informer follows config maps and tells what its handlers hear, until its input ends. Each line
// of input asks for the cache as it is then.
func informer(client string, config *rest.Config, namespace string) error {
	shared, err := newInformer(client, config, namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	registration, err := shared.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(object any, _ bool) { tell("ADDED", object, nil) },
		UpdateFunc: func(old, object any) { tell("MODIFIED", object, old) },
		DeleteFunc: func(object any) {
			if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
				tell("MISSED", unknown.Obj, nil) // deleted while nobody watched
				return
			}
			tell("DELETED", object, nil)
		},
	})
	if err != nil {
		return err
	}
	go shared.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return errors.New("the cache was never filled")
	}
	say(map[string]any{"synced": true})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		contents, objects := map[string]string{}, map[string][2]string{}
		for _, object := range shared.GetStore().List() {
			if found, err := meta.Accessor(object); err == nil {
				contents[found.GetName()] = found.GetResourceVersion()
				objects[keyOf(found)] = [2]string{string(found.GetUID()), found.GetResourceVersion()}
			}
		}
		say(map[string]any{"cache": contents, "objects": objects})
	}
	return nil
}

func newInformer(
	client string, config *rest.Config, namespace string,
) (cache.SharedIndexInformer, error) {
	switch client {
	case "dynamic":
		made, err := dynamic.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return dynamicinformer.NewFilteredDynamicInformer(
			made, configMaps, namespace, 0, cache.Indexers{}, nil,
		).Informer(), nil
	case "metadata":
		made, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return metadatainformer.NewFilteredMetadataInformer(
			made, configMaps, namespace, 0, cache.Indexers{}, nil,
		).Informer(), nil
	}
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	in := core.ConfigMaps(namespace)
	// As the generated informers do, without linking the clients of every resource there is.
	both := cache.ListWatch{
		ListWithContextFunc: func(
			ctx context.Context, options metav1.ListOptions,
		) (runtime.Object, error) {
			return in.List(ctx, options)
		},
		WatchFuncWithContext: func(
			ctx context.Context, options metav1.ListOptions,
		) (watch.Interface, error) {
			return in.Watch(ctx, options)
		},
	}
	source := cache.ToListWatcherWithWatchListSemantics(&both, core)
	return cache.NewSharedIndexInformer(source, &corev1.ConfigMap{}, 0, cache.Indexers{}), nil
}

func keyOf(found metav1.Object) string {
	return cache.MetaObjectToName(found).String()
}

func tell(kind string, object, old any) {
	found, err := meta.Accessor(object)
	if err != nil {
		say(map[string]any{"error": err.Error()})
		return
	}
	line := map[string]any{
		"event": kind, "name": found.GetName(), "version": found.GetResourceVersion(),
		"key": keyOf(found), "uid": found.GetUID(),
	}
	if before, err := meta.Accessor(old); old != nil && err == nil {
		line["old"] = before.GetResourceVersion()
		line["old_uid"] = before.GetUID()
	}
	say(line)
}
