package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const peerWithoutCopies = "controller-runtime-no-copy"

// workload has the fields of harness/phases.py's Workload that are needed here.
type workload struct {
	URL        string `json:"url"`
	Objects    int    `json:"objects"`
	CAFile     string `json:"ca_file"`
	Token      string `json:"token"`
	ControlURL string `json:"control_url"`
	APIVersion string `json:"api_version"`
}

// podReader reads a pod from the manager's cache, and one field of it, at each reconcile.
type podReader struct {
	client.Client
	missing int           // initial reconciles; there is one worker
	synced  chan struct{} // closed after the last of them
	phases  map[corev1.PodPhase]int
}

func (r *podReader) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var pod corev1.Pod
	if err := r.Get(ctx, request.NamespacedName, &pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.phases[pod.Status.Phase]++
	if r.missing--; r.missing == 0 {
		close(r.synced)
	}
	return reconcile.Result{}, nil
}

// newManager leaves all settings as they are but the port of the metrics. So the cache speaks
// protobuf, as it does for every type of client-go's scheme, and a read returns a deep copy.
func newManager(peer string, w workload) (ctrl.Manager, error) {
	config := &rest.Config{
		Host:            w.URL,
		BearerToken:     w.Token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: w.CAFile},
	}
	withoutCopies := peer == peerWithoutCopies
	return ctrl.NewManager(config, ctrl.Options{
		Metrics: metricsserver.Options{BindAddress: "0"},
		Cache:   cache.Options{DefaultUnsafeDisableDeepCopy: &withoutCopies},
	})
}

// follow reconciles pods until the process is ended; it tells the measurement when it follows.
func follow(peer string, w workload) error {
	manager, err := newManager(peer, w)
	if err != nil {
		return err
	}
	reader := &podReader{
		Client:  manager.GetClient(),
		missing: w.Objects,
		synced:  make(chan struct{}),
		phases:  map[corev1.PodPhase]int{},
	}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(reader); err != nil {
		return err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(context.Background()) }()
	select {
	case <-reader.synced:
	case err := <-stopped:
		return err
	}
	answer, err := http.Post(w.ControlURL+"/benchmark/release", "", nil)
	if err != nil {
		return err
	}
	answer.Body.Close()
	return <-stopped
}

// runFollower prints why it follows no longer, in the line that the harness reads.
func runFollower(arguments []string) error {
	flags := flag.NewFlagSet("follow", flag.ContinueOnError)
	peer := flags.String("peer", "", "name of the peer")
	described := flags.String("workload", "", "what the server holds, as JSON")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	var w workload
	err := json.Unmarshal([]byte(*described), &w)
	if err == nil {
		err = follow(*peer, w)
	}
	text, encodingErr := json.Marshal(map[string]string{"peer": *peer, "error": fmt.Sprint(err)})
	fmt.Printf("MEASUREMENT %s\n", text)
	return encodingErr
}
