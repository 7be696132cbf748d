package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfigs prints what kubectl makes of each file that it reads the path of: where a request goes
// and the headers that say who sends it; or the error.
func kubeconfigs(string, *rest.Config, string) error {
	paths := json.NewDecoder(os.Stdin)
	for {
		var path string
		if err := paths.Decode(&path); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		found, err := requestBy(path)
		if err != nil {
			found = map[string]any{"error": err.Error()}
		}
		say(found)
	}
}

// recorder is at the end of what wraps a transport, and sends nothing.
type recorder struct{ request *http.Request }

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.request = request
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
}

func requestBy(path string) (map[string]any, error) {
	read := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: path}, &clientcmd.ConfigOverrides{},
	)
	config, err := read.ClientConfig()
	if err != nil {
		return nil, err
	}
	namespace, _, err := read.Namespace()
	if err != nil {
		return nil, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	sent := &recorder{}
	config.Wrap(func(http.RoundTripper) http.RoundTripper { return sent })
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	if _, err = client.Get(server.String()); err != nil {
		return nil, err
	}
	headers := map[string][]string{}
	for name, values := range sent.request.Header {
		if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") {
			headers[name] = values
		}
	}
	proxy := ""
	if config.Proxy != nil {
		found, err := config.Proxy(sent.request)
		if err != nil {
			return nil, err
		}
		proxy = found.String()
	}
	return map[string]any{
		"server":    strings.TrimSuffix(server.String(), "/"),
		"headers":   headers,
		"proxy":     proxy,
		"namespace": namespace,
		"name":      config.ServerName,
		"trusting":  config.Insecure,
	}, nil
}
