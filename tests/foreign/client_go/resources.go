package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	typedappsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	widgets     = schema.GroupVersionResource{
		Group: "suite.example.com", Version: "v1", Resource: "widgets",
	}
)

// resource is what the questions need of one resource in one namespace, whatever the client.
type resource interface {
	Create(
		context.Context, *unstructured.Unstructured, metav1.CreateOptions, ...string,
	) (*unstructured.Unstructured, error)
	Update(
		context.Context, *unstructured.Unstructured, metav1.UpdateOptions, ...string,
	) (*unstructured.Unstructured, error)
	Delete(context.Context, string, metav1.DeleteOptions, ...string) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	Get(
		context.Context, string, metav1.GetOptions, ...string,
	) (*unstructured.Unstructured, error)
	List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(
		context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
	) (*unstructured.Unstructured, error)
}

type resources struct{ configMaps, deployments, widgets resource }

func newResources(client string, config *rest.Config, namespace string) (resources, error) {
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return resources{}, err
	}
	found := resources{
		configMaps:  untyped.Resource(configMaps).Namespace(namespace),
		deployments: untyped.Resource(deployments).Namespace(namespace),
		widgets:     untyped.Resource(widgets).Namespace(namespace),
	}
	switch client {
	case "dynamic":
		return found, nil
	case "typed", "protobuf":
		core, err := typedcorev1.NewForConfig(config)
		if err != nil {
			return resources{}, err
		}
		apps, err := typedappsv1.NewForConfig(config)
		if err != nil {
			return resources{}, err
		}
		found.configMaps = typed[corev1.ConfigMap, corev1.ConfigMapList]{
			core.ConfigMaps(namespace), configMaps.GroupVersion().WithKind("ConfigMap"),
		}
		found.deployments = typed[appsv1.Deployment, appsv1.DeploymentList]{
			apps.Deployments(namespace), deployments.GroupVersion().WithKind("Deployment"),
		}
		return found, nil
	}
	return resources{}, fmt.Errorf("no such client: %q", client)
}

// generated is what client-go generates for every resource.
type generated[T, L any] interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	Get(context.Context, string, metav1.GetOptions) (*T, error)
	List(context.Context, metav1.ListOptions) (*L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(
		context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string,
	) (*T, error)
}

// typed asks by a generated client.
type typed[T, L any] struct {
	client generated[T, L]
	kind   schema.GroupVersionKind
}

func (t typed[T, L]) Create(
	ctx context.Context, object *unstructured.Unstructured, options metav1.CreateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	wanted := new(T)
	if err := fromUnstructured(object, wanted); err != nil {
		return nil, err
	}
	found, err := t.client.Create(ctx, wanted, options)
	return t.untyped(found, err)
}

func (t typed[T, L]) Update(
	ctx context.Context, object *unstructured.Unstructured, options metav1.UpdateOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	wanted := new(T)
	if err := fromUnstructured(object, wanted); err != nil {
		return nil, err
	}
	found, err := t.client.Update(ctx, wanted, options)
	return t.untyped(found, err)
}

func (t typed[T, L]) Delete(
	ctx context.Context, name string, options metav1.DeleteOptions, _ ...string,
) error {
	return t.client.Delete(ctx, name, options)
}

func (t typed[T, L]) DeleteCollection(
	ctx context.Context, options metav1.DeleteOptions, which metav1.ListOptions,
) error {
	return t.client.DeleteCollection(ctx, options, which)
}

func (t typed[T, L]) Get(
	ctx context.Context, name string, options metav1.GetOptions, _ ...string,
) (*unstructured.Unstructured, error) {
	found, err := t.client.Get(ctx, name, options)
	return t.untyped(found, err)
}

func (t typed[T, L]) List(
	ctx context.Context, options metav1.ListOptions,
) (*unstructured.UnstructuredList, error) {
	found, err := t.client.List(ctx, options)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(found)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetUnstructuredContent(content)
	return list, nil
}

func (t typed[T, L]) Watch(
	ctx context.Context, options metav1.ListOptions,
) (watch.Interface, error) {
	return t.client.Watch(ctx, options)
}

func (t typed[T, L]) Patch(
	ctx context.Context,
	name string,
	kind types.PatchType,
	data []byte,
	options metav1.PatchOptions,
	subresources ...string,
) (*unstructured.Unstructured, error) {
	found, err := t.client.Patch(ctx, name, kind, data, options, subresources...)
	return t.untyped(found, err)
}

func (t typed[T, L]) untyped(object *T, err error) (*unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	found := &unstructured.Unstructured{Object: content}
	found.SetGroupVersionKind(t.kind)
	return found, nil
}

func fromUnstructured(object *unstructured.Unstructured, into any) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into)
}
