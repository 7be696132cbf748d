// The DatabaseUser operator with controller-runtime: each DatabaseUser becomes a user of a database
// outside of the cluster, and a Secret with its password.
package main

import (
	"context"
	"crypto/rand"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "acme.io/database-user"

type reconciler struct {
	client.Client
	database database
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var user DatabaseUser
	if err := r.Get(ctx, req.NamespacedName, &user); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	id := req.Namespace + "." + req.Name
	if !user.DeletionTimestamp.IsZero() {
		if !controllerutil.ContainsFinalizer(&user, finalizer) {
			return ctrl.Result{}, nil
		}
		if err := r.database.drop(ctx, id); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&user, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(r.Update(ctx, &user))
	}
	if controllerutil.AddFinalizer(&user, finalizer) {
		if err := r.Update(ctx, &user); err != nil {
			return ctrl.Result{}, err
		}
	}
	password, err := r.ensureSecret(ctx, &user, id)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.database.put(ctx, id, password, user.Spec.Database); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.setReady(ctx, &user)
}

// ensureSecret makes the Secret right, and returns its password: a new one if it has none.
func (r *reconciler) ensureSecret(ctx context.Context, user *DatabaseUser, id string) (string, error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name:      user.Name + "-credentials",
		Namespace: user.Namespace,
	}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, secret, func() error {
		password := secret.Data["password"]
		if len(password) == 0 {
			password = []byte(rand.Text())
		}
		secret.Data = map[string][]byte{
			"user":     []byte(id),
			"password": password,
			"database": []byte(user.Spec.Database),
		}
		return controllerutil.SetControllerReference(user, secret, r.Scheme())
	})
	return string(secret.Data["password"]), err
}

func (r *reconciler) setReady(ctx context.Context, user *DatabaseUser) error {
	before := user.DeepCopy()
	user.Status.ObservedGeneration = user.Generation
	meta.SetStatusCondition(&user.Status.Conditions, metav1.Condition{
		Type:               "Ready",
		Status:             metav1.ConditionTrue,
		Reason:             "UserCreated",
		ObservedGeneration: user.Generation,
	})
	if equality.Semantic.DeepEqual(before.Status, user.Status) {
		return nil
	}
	return r.Status().Patch(ctx, user, client.MergeFrom(before))
}

func run() error {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(addToScheme(scheme))
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		LeaderElection:                true,
		LeaderElectionID:              "database-users",
		LeaderElectionNamespace:       "default",
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&DatabaseUser{}).
		Owns(&corev1.Secret{}).
		Complete(&reconciler{manager.GetClient(), newDatabase(os.Getenv("DATABASE_URL"))})
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	ctrl.SetLogger(zap.New())
	if err := run(); err != nil {
		ctrl.Log.Error(err, "the operator has ended")
		os.Exit(1)
	}
}
