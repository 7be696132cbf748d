package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// database has the fields of data/databases.py's Database.
type database struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              databaseSpec `json:"spec"`
}

type databaseSpec struct {
	Engine   string         `json:"engine"`
	Image    string         `json:"image"`
	Replicas int            `json:"replicas"`
	Storage  storage        `json:"storage"`
	Users    []databaseUser `json:"users"`
}

type storage struct {
	Tier       string            `json:"tier"`
	Gigabytes  int               `json:"gigabytes"`
	Parameters map[string]string `json:"parameters"`
}

type databaseUser struct {
	Name           string            `json:"name"`
	MaxConnections int               `json:"maxConnections"`
	Roles          []string          `json:"roles"`
	Settings       map[string]string `json:"settings"`
}

// DeepCopyObject copies what controller-gen's code would copy.
func (d *database) DeepCopyObject() runtime.Object {
	copied := *d
	d.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Spec.Storage.Parameters = maps.Clone(d.Spec.Storage.Parameters)
	copied.Spec.Users = slices.Clone(d.Spec.Users)
	for i := range copied.Spec.Users {
		user := &copied.Spec.Users[i]
		user.Roles, user.Settings = slices.Clone(user.Roles), maps.Clone(user.Settings)
	}
	return &copied
}

type databaseList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []database `json:"items"`
}

// DeepCopyObject copies the list.
func (l *databaseList) DeepCopyObject() runtime.Object {
	copied := *l
	l.ListMeta.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]database, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*database)
	}
	return &copied
}

// hooks decide as the hooks of the other peers do.
type hooks struct{}

func (hooks) Default(_ context.Context, d *database) error {
	if d.Spec.Image == "" {
		d.Spec.Image = d.Spec.Engine + ":17"
	}
	return nil
}

func (hooks) ValidateCreate(context.Context, *database) (admission.Warnings, error) {
	return nil, nil
}

func (hooks) ValidateUpdate(_ context.Context, old, d *database) (admission.Warnings, error) {
	if old.Spec.Engine != d.Spec.Engine {
		return nil, errors.New("spec.engine cannot be changed")
	}
	return nil, nil
}

func (hooks) ValidateDelete(context.Context, *database) (admission.Warnings, error) {
	return nil, nil
}

// serveWebhooks runs an operator until it is killed. It prints a line when it has reconciled the only
// database and, if it has hooks, listens.
func serveWebhooks(described string) error {
	var o struct {
		Workload     workload `json:"workload"`
		Certificates string   `json:"certificates"`
		Port         int      `json:"port"` // 0 for an operator without hooks
	}
	if err := json.Unmarshal([]byte(described), &o); err != nil {
		return err
	}
	w := o.Workload
	version, err := schema.ParseGroupVersion(w.APIVersion)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind("Database"), &database{})
	scheme.AddKnownTypeWithName(version.WithKind("DatabaseList"), &databaseList{})
	metav1.AddToGroupVersion(scheme, version)
	config := &rest.Config{
		Host:            w.URL,
		BearerToken:     w.Token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: w.CAFile},
	}
	options := webhook.Options{Host: "127.0.0.1", Port: o.Port, CertDir: o.Certificates}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:        scheme,
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(options),
	})
	if err != nil {
		return err
	}
	reconciled := make(chan struct{})
	first := sync.OnceFunc(func() { close(reconciled) })
	reconciler := reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		first()
		err := manager.GetClient().Get(ctx, request.NamespacedName, &database{})
		return reconcile.Result{}, client.IgnoreNotFound(err)
	})
	if err := ctrl.NewControllerManagedBy(manager).For(&database{}).Complete(reconciler); err != nil {
		return err
	}
	if o.Port != 0 {
		err := ctrl.NewWebhookManagedBy(manager, &database{}).
			WithDefaulter(hooks{}).WithDefaulterCustomPath("/default/databases").
			WithValidator(hooks{}).WithValidatorCustomPath("/validate/databases").
			Complete()
		if err != nil {
			return err
		}
	}
	go func() {
		<-reconciled
		for o.Port != 0 && manager.GetWebhookServer().StartedChecker()(nil) != nil {
			time.Sleep(time.Millisecond)
		}
		fmt.Println("READY")
	}()
	return manager.Start(context.Background())
}
