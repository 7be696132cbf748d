package main

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

const (
	answerTimeout     = 20 * time.Second
	initialEventsEnd  = "k8s.io/initial-events-end"
	fieldsOfConflicts = "FieldManagerConflict"
)

// session asks one client; the first error that no question expects ends it.
type session struct {
	ctx context.Context
	resources
}

// calls asks every question in order; the tests know the answers.
func calls(client string, config *rest.Config, namespace string) error {
	found, err := newResources(client, config, namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	s := session{ctx, found}
	for _, part := range []func() error{
		s.reads, s.patches, s.applies, s.deletions, s.watches, s.customResources,
	} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func answer(step string, value any) { say(map[string]any{"step": step, "value": value}) }

// refused says how the server put its refusal, or that it did not refuse.
func refused(step string, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		answer(step, map[string]any{"error": err})
		return
	}
	said := map[string]any{"code": status.Status().Code, "reason": status.Status().Reason}
	if details := status.Status().Details; details != nil {
		var fields []string
		for _, cause := range details.Causes {
			if cause.Type == fieldsOfConflicts {
				fields = append(fields, cause.Field)
			}
		}
		if fields != nil {
			said["fields"] = fields
		}
	}
	answer(step, said)
}

func configMap(name string, data map[string]any) *unstructured.Unstructured {
	app := "web"
	if name[len(name)-1]%2 == 1 {
		app = "db"
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "labels": map[string]any{"app": app}},
		"data":       data,
	}}
}

func deployment(name string) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	containers := []any{map[string]any{"name": "c", "image": "nginx:1"}}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1",
		"kind":       "Deployment",
		"metadata":   map[string]any{"name": name},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": containers},
			},
		},
	}}
}

func (s session) names(
	in resource, options metav1.ListOptions,
) ([]string, *unstructured.UnstructuredList, error) {
	list, err := in.List(s.ctx, options)
	if err != nil {
		return nil, nil, err
	}
	names := []string{}
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	return names, list, nil
}

func (s session) reads() error {
	var created []string
	for _, name := range []string{"c0", "c1", "c2", "c3", "c4"} {
		made, err := s.configMaps.Create(
			s.ctx, configMap(name, map[string]any{"a": "1"}), metav1.CreateOptions{},
		)
		if err != nil {
			return err
		}
		created = append(created, made.GetName())
	}
	answer("create", created)
	_, err := s.configMaps.Create(s.ctx, configMap("c0", nil), metav1.CreateOptions{})
	refused("create-again", err)
	_, err = s.configMaps.Get(s.ctx, "absent", metav1.GetOptions{})
	refused("get-absent", err)
	for step, options := range map[string]metav1.ListOptions{
		"list":       {},
		"list-label": {LabelSelector: "app in (web), app"},
		"list-field": {FieldSelector: "metadata.name=c3"},
	} {
		names, _, err := s.names(s.configMaps, options)
		if err != nil {
			return err
		}
		answer(step, names)
	}
	_, _, err = s.names(s.configMaps, metav1.ListOptions{FieldSelector: "data.a=1"})
	refused("list-unknown-field", err)
	return s.pages()
}

func (s session) pages() error {
	var pages []any
	versions := map[string]bool{}
	options := metav1.ListOptions{Limit: 2}
	for {
		names, list, err := s.names(s.configMaps, options)
		if err != nil {
			return err
		}
		remaining := int64(0)
		if list.GetRemainingItemCount() != nil {
			remaining = *list.GetRemainingItemCount()
		}
		pages = append(pages, []any{names, remaining})
		versions[list.GetResourceVersion()] = true
		if options.Continue = list.GetContinue(); options.Continue == "" {
			break
		}
	}
	answer("pages", pages)
	answer("versions-of-pages", len(versions))
	_, _, err := s.names(s.configMaps, metav1.ListOptions{Limit: 2, Continue: "nonsense"})
	refused("malformed-continue", err)
	return nil
}

func (s session) patches() error {
	patch := func(step, name string, kind types.PatchType, body string) error {
		found, err := s.configMaps.Patch(s.ctx, name, kind, []byte(body), metav1.PatchOptions{})
		if err != nil {
			return err
		}
		answer(step, found.Object["data"])
		return nil
	}
	if err := patch("merge-patch", "c0", types.MergePatchType, `{"data":{"b":"2"}}`); err != nil {
		return err
	}
	err := patch("json-patch", "c0", types.JSONPatchType, `[{"op":"remove","path":"/data/a"}]`)
	if err != nil {
		return err
	}
	_, err = s.configMaps.Patch(
		s.ctx, "c0", types.JSONPatchType, []byte(`[{"op":"test","path":"/data/b","value":"9"}]`),
		metav1.PatchOptions{},
	)
	refused("json-patch-fails", err)
	if err := s.patchDeployment(); err != nil {
		return err
	}
	old, err := s.configMaps.Get(s.ctx, "c0", metav1.GetOptions{})
	if err != nil {
		return err
	}
	changed := old.DeepCopy()
	changed.Object["data"] = map[string]any{"z": "26"}
	changed, err = s.configMaps.Update(s.ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	answer("update", changed.Object["data"])
	_, err = s.configMaps.Update(s.ctx, old, metav1.UpdateOptions{})
	refused("update-conflict", err)
	return nil
}

func (s session) patchDeployment() error {
	_, err := s.deployments.Create(s.ctx, deployment("web"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	containers := `{"spec":{"template":{"spec":{"containers":[{"name":"d","image":"e:1"}]}}}}`
	found, err := s.deployments.Patch(
		s.ctx, "web", types.StrategicMergePatchType, []byte(containers), metav1.PatchOptions{},
	)
	if err != nil {
		return err
	}
	listed, _, _ := unstructured.NestedSlice(found.Object, "spec", "template", "spec", "containers")
	images := []string{}
	for _, container := range listed {
		images = append(images, container.(map[string]any)["image"].(string))
	}
	sort.Strings(images)
	answer("strategic-patch", images)
	found, err = s.deployments.Patch(
		s.ctx, "web", types.MergePatchType, []byte(`{"status":{"replicas":3}}`),
		metav1.PatchOptions{}, "status",
	)
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(found.Object, "status", "replicas")
	answer("status", []int64{replicas, found.GetGeneration()})
	return nil
}

func (s session) applies() error {
	apply := func(manager, value string, force bool) (*unstructured.Unstructured, error) {
		body, err := json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": "applied"}, "data": map[string]any{"a": value},
		})
		if err != nil {
			return nil, err
		}
		return s.configMaps.Patch(
			s.ctx, "applied", types.ApplyPatchType, body,
			metav1.PatchOptions{FieldManager: manager, Force: &force},
		)
	}
	made, err := apply("first", "1", false)
	if err != nil {
		return err
	}
	answer("apply", made.Object["data"])
	_, err = apply("second", "2", false)
	refused("apply-conflict", err)
	forced, err := apply("second", "2", true)
	if err != nil {
		return err
	}
	answer("apply-force", forced.Object["data"])
	managers := []string{}
	for _, entry := range forced.GetManagedFields() {
		managers = append(managers, entry.Manager+" "+string(entry.Operation))
	}
	answer("managers", managers)
	return nil
}

func (s session) deletions() error {
	other := types.UID("00000000-0000-0000-0000-000000000000")
	refused("delete-other-uid", s.configMaps.Delete(
		s.ctx, "c0", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}},
	))
	foreground := metav1.DeletePropagationForeground
	err := s.deployments.Delete(
		s.ctx, "web", metav1.DeleteOptions{PropagationPolicy: &foreground},
	)
	if err != nil {
		return err
	}
	held, err := s.deployments.Get(s.ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	answer("delete-foreground", []any{held.GetFinalizers(), held.GetDeletionTimestamp() != nil})
	_, err = s.deployments.Patch(
		s.ctx, "web", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{},
	)
	if err != nil {
		return err
	}
	_, err = s.deployments.Get(s.ctx, "web", metav1.GetOptions{})
	refused("finalized", err)
	err = s.configMaps.DeleteCollection(
		s.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=web"},
	)
	if err != nil {
		return err
	}
	names, _, err := s.names(s.configMaps, metav1.ListOptions{LabelSelector: "app"})
	answer("delete-collection", names)
	return err
}

func (s session) watches() error {
	_, list, err := s.names(s.configMaps, metav1.ListOptions{})
	if err != nil {
		return err
	}
	events, err := s.configMaps.Watch(s.ctx, metav1.ListOptions{
		ResourceVersion: list.GetResourceVersion(), FieldSelector: "metadata.name=w0",
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	_, err = s.configMaps.Create(s.ctx, configMap("w0", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.configMaps.Patch(
		s.ctx, "w0", types.MergePatchType, []byte(`{"data":{"b":"2"}}`), metav1.PatchOptions{},
	)
	if err != nil {
		return err
	}
	if err := s.configMaps.Delete(s.ctx, "w0", metav1.DeleteOptions{}); err != nil {
		return err
	}
	seen := []any{}
	for len(seen) < 3 {
		event := <-events.ResultChan()
		seen = append(seen, []any{event.Type, nameOf(event)})
	}
	answer("watch", seen)
	if err := s.expiredWatch(); err != nil {
		return err
	}
	return s.watchList()
}

func (s session) expiredWatch() error {
	expired, err := s.configMaps.Watch(s.ctx, metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		refused("watch-expired", err)
		return nil
	}
	defer expired.Stop()
	event := <-expired.ResultChan()
	if event.Type != watch.Error {
		answer("watch-expired", event.Type)
		return nil
	}
	refused("watch-expired", apierrors.FromObject(event.Object))
	return nil
}

func (s session) watchList() error {
	yes := true
	events, err := s.configMaps.Watch(s.ctx, metav1.ListOptions{
		SendInitialEvents:    &yes,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		LabelSelector:        "app=db",
	})
	if err != nil {
		return err
	}
	defer events.Stop()
	names := []string{}
	for event := range events.ResultChan() {
		if event.Type != watch.Bookmark {
			names = append(names, nameOf(event))
			continue
		}
		sort.Strings(names)
		accessor, err := meta.Accessor(event.Object)
		if err != nil {
			return err
		}
		answer("watch-list", []any{names, accessor.GetAnnotations()[initialEventsEnd]})
		return nil
	}
	answer("watch-list", "the stream has ended")
	return nil
}

func nameOf(event watch.Event) string {
	accessor, err := meta.Accessor(event.Object)
	if err != nil {
		return err.Error()
	}
	return accessor.GetName()
}

func (s session) customResources() error {
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "suite.example.com/v1",
		"kind":       "Widget",
		"metadata":   map[string]any{"name": "w"},
		"spec":       map[string]any{"size": int64(1)},
	}}
	_, err := s.widgets.Create(s.ctx, widget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	patched, err := s.widgets.Patch(
		s.ctx, "w", types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{},
	)
	if err != nil {
		return err
	}
	size, _, _ := unstructured.NestedInt64(patched.Object, "spec", "size")
	answer("custom-patch", []int64{size, patched.GetGeneration()})
	_, err = s.widgets.Patch(
		s.ctx, "w", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{},
	)
	refused("custom-strategic-patch", err)
	body := `{"apiVersion":"suite.example.com/v1","kind":"Widget","metadata":{"name":"v"},"spec":{}}`
	_, err = s.widgets.Patch(
		s.ctx, "v", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "first"},
	)
	if err != nil {
		return err
	}
	names, _, err := s.names(s.widgets, metav1.ListOptions{})
	answer("custom-list", names)
	return err
}
