// Command client_go is a candidate that competes for a Lease with client-go's elector.
//
// In goes one argument, the settings as JSON, and SIGTERM; out come writes to the API server. It does
// the same as candidate.py beside it: while it leads it labels ConfigMaps that are not labelled yet,
// and counts in the ConfigMap `tick`. After SIGTERM it continues for the drain, as work does
// that ends slowly.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const cyclePause = 25 * time.Millisecond

type settings struct {
	URL       string `json:"url"`
	CAFile    string `json:"ca_file"`
	Token     string `json:"token"`
	Namespace string `json:"namespace"`
	Identity  string `json:"identity"`
	Lease     int    `json:"lease_duration_seconds"`
	Renew     int    `json:"renew_deadline_seconds"`
	Retry     int    `json:"retry_period_seconds"`
	Drain     int    `json:"drain_seconds"`
}

type candidate struct {
	settings
	client *kubernetes.Clientset
	count  int
}

func main() {
	made := candidate{}
	if err := json.Unmarshal([]byte(os.Args[1]), &made.settings); err != nil {
		fail(err)
	}
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host:            made.URL,
		BearerToken:     made.Token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: made.CAFile},
		QPS:             -1,
	})
	if err != nil {
		fail(err)
	}
	made.client = client
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	made.compete(ctx)
}

// compete runs the elector as its documentation shows it, and waits for the work after that.
func (c *candidate) compete(ctx context.Context) {
	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: "election"},
			Client:     c.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: c.Identity},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   time.Duration(c.Lease) * time.Second,
		RenewDeadline:   time.Duration(c.Renew) * time.Second,
		RetryPeriod:     time.Duration(c.Retry) * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				c.work(ctx)
				close(ended)
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		fail(err)
	}
	elector.Run(ctx)
	if ctx.Err() != nil {
		select {
		case <-ended:
		case <-time.After(time.Duration(c.Drain+1) * time.Second): // of a standby, no work ends
		}
	}
}

// work writes until its term is over, and then for the drain.
func (c *candidate) work(ctx context.Context) {
	for ctx.Err() == nil {
		c.cycle()
	}
	for until := time.Now().Add(time.Duration(c.Drain) * time.Second); time.Now().Before(until); {
		c.cycle()
	}
}

func (c *candidate) cycle() {
	time.Sleep(cyclePause)
	ctx := context.Background()
	maps := c.client.CoreV1().ConfigMaps(c.Namespace)
	todo, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "todo,!by"})
	if err != nil {
		return // the server is away: the next cycle tries again
	}
	for _, one := range todo.Items {
		c.patch(ctx, one.Name, fmt.Sprintf(`{"metadata":{"labels":{"by":%q}}}`, c.Identity))
	}
	c.count++
	c.patch(ctx, "tick", fmt.Sprintf(`{"data":{"by":%q,"n":"%d"}}`, c.Identity, c.count))
}

func (c *candidate) patch(ctx context.Context, name string, body string) {
	maps := c.client.CoreV1().ConfigMaps(c.Namespace)
	_, err := maps.Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, c.Identity, name, err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
