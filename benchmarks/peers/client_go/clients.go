package main

import (
	"context"
	"fmt"
	"os"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	peerJSON     = "client-go-json"
	peerProtobuf = "client-go-protobuf"
	peerMetadata = "client-go-metadata"
	peerDynamic  = "client-go-dynamic"
)

// sources makes what an informer lists and watches, for one namespace or, with "", for all.
type sources func(namespace string) source

// source is what client-go's generated informers are made of, without their factories: those would
// link the clients of every resource there is, which costs a minute of compiling.
type source struct {
	listerWatcher *cache.ListWatch
	client        any            // asked by the reflector whether it can do watch-lists
	example       runtime.Object // of the type that is decoded into
}

// restConfig is client-go as its users have it, but without a limit on requests.
func restConfig(w workload) *rest.Config {
	return &rest.Config{
		Host:            w.URL,
		BearerToken:     w.Token,
		BearerTokenFile: w.TokenFile,
		TLSClientConfig: rest.TLSClientConfig{CAFile: w.CAFile},
		QPS:             -1,
	}
}

// chooseLoad says how the initial state is asked for; it must come before client-go's first look.
func chooseLoad(load string) error {
	const variable = "KUBE_FEATURE_WatchListClient"
	switch load {
	case "default":
		return os.Unsetenv(variable)
	case "list":
		return os.Setenv(variable, "false")
	case "watch-list":
		return os.Setenv(variable, "true")
	}
	return fmt.Errorf("no such load: %q", load)
}

func newSources(peer string, w workload) (sources, error) {
	resource, err := w.groupVersionResource()
	if err != nil {
		return nil, err
	}
	config := restConfig(w)
	switch peer {
	case peerJSON:
		// Said in so many words: left alone, the generated clients of built-in resources ask for
		// protobuf.
		config.ContentType = runtime.ContentTypeJSON
		return typedSources(config, w)
	case peerProtobuf:
		return typedSources(config, w)
	case peerMetadata:
		client, err := metadata.NewForConfig(config)
		return func(namespace string) source {
			in := client.Resource(resource).Namespace(namespace)
			return newSource(in.List, in.Watch, client, &metav1.PartialObjectMetadata{})
		}, err
	case peerDynamic:
		client, err := dynamic.NewForConfig(config)
		return func(namespace string) source {
			in := client.Resource(resource).Namespace(namespace)
			return newSource(in.List, in.Watch, client, &unstructured.Unstructured{})
		}, err
	}
	return nil, fmt.Errorf("no such peer: %q", peer)
}

func typedSources(config *rest.Config, w workload) (sources, error) {
	core, err := typedcorev1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	coordination, err := typedcoordinationv1.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	switch w.APIVersion + "/" + w.Resource {
	case "v1/pods":
		return func(namespace string) source {
			in := core.Pods(namespace)
			return newSource(in.List, in.Watch, core, &corev1.Pod{})
		}, nil
	case "v1/configmaps":
		return func(namespace string) source {
			in := core.ConfigMaps(namespace)
			return newSource(in.List, in.Watch, core, &corev1.ConfigMap{})
		}, nil
	case "coordination.k8s.io/v1/leases":
		return func(namespace string) source {
			in := coordination.Leases(namespace)
			return newSource(in.List, in.Watch, coordination, &coordinationv1.Lease{})
		}, nil
	}
	return nil, fmt.Errorf("no typed client of %s %s", w.APIVersion, w.Resource)
}

func newSource[L runtime.Object](
	list func(context.Context, metav1.ListOptions) (L, error),
	follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
	client any,
	example runtime.Object,
) source {
	made := source{client: client, example: example}
	made.listerWatcher = &cache.ListWatch{
		ListWithContextFunc: func(
			ctx context.Context, options metav1.ListOptions,
		) (runtime.Object, error) {
			return list(ctx, options)
		},
		WatchFuncWithContext: follow,
	}
	return made
}

// hearing calls back before each request that loads the whole collection.
func (s source) hearing(heard func()) source {
	list, follow := s.listerWatcher.ListWithContextFunc, s.listerWatcher.WatchFuncWithContext
	s.listerWatcher = &cache.ListWatch{
		ListWithContextFunc: func(
			ctx context.Context, options metav1.ListOptions,
		) (runtime.Object, error) {
			heard()
			return list(ctx, options)
		},
		WatchFuncWithContext: func(
			ctx context.Context, options metav1.ListOptions,
		) (watch.Interface, error) {
			if options.SendInitialEvents != nil && *options.SendInitialEvents {
				heard()
			}
			return follow(ctx, options)
		},
	}
	return s
}

// informer makes an informer as the generated factories do.
func (s source) informer(indexes int) cache.SharedIndexInformer {
	indexers := cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}
	if indexes > 1 {
		indexers[nodeIndex] = nodesOf
	}
	listerWatcher := cache.ToListWatcherWithWatchListSemantics(s.listerWatcher, s.client)
	return cache.NewSharedIndexInformer(listerWatcher, s.example, 0, indexers)
}
