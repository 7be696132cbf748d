// Command client_go is client-go as the tests of foreign clients run it.
//
// In goes a subcommand: `calls CLIENT KUBECONFIG NAMESPACE` asks a fixed list of questions once,
// `informer CLIENT KUBECONFIG NAMESPACE` follows config maps until its input ends, `fields - - -`
// prints how objects look in protobuf, `proxies - KUBECONFIG -` names the proxy of each request that
// it reads, `kubeconfigs - KUBECONFIG -` the request that each file leads to, `yaml - KUBECONFIG -`
// prints the value of each YAML text that it reads, `regexps - KUBECONFIG -` what Go refuses in each
// pattern. CLIENT is typed, protobuf (typed, and as client-go configures itself), dynamic or
// metadata. Out come lines of JSON, which the tests judge: nothing is judged here.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var subcommands = map[string]func(client string, config *rest.Config, namespace string) error{
	"calls":       calls,
	"fields":      fields,
	"informer":    informer,
	"kubeconfigs": kubeconfigs,
	"proxies":     proxies,
	"regexps":     regexps,
	"yaml":        yamls,
}

func main() {
	if len(os.Args) != 5 || subcommands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: client_go calls|informer|fields|kubeconfigs|proxies|regexps|yaml CLIENT KUBECONFIG NAMESPACE")
		os.Exit(2)
	}
	client := os.Args[2]
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[3])
	if err == nil {
		config.QPS = -1
		if client != "protobuf" {
			// Left alone, the generated clients of built-in resources ask for protobuf and send it.
			config.ContentType = runtime.ContentTypeJSON
		}
		err = subcommands[os.Args[1]](client, config, os.Args[4])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var printing sync.Mutex

// say prints one line; handlers and commands come from several goroutines.
func say(line map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(line); err != nil {
		panic(err) // whoever listened has gone
	}
}
