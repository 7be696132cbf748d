package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// proxyCase is a server and the environment of a program that asks it.
type proxyCase struct {
	Environment map[string]string
	Server      string
}

// proxies prints the proxy of each case, or the error. net/http reads the environment only once in
// a process, so that its function is made anew of the same parts.
func proxies(string, *rest.Config, string) error {
	cases := json.NewDecoder(os.Stdin)
	for {
		var one proxyCase
		if err := cases.Decode(&one); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		say(proxyOf(one))
	}
}

func proxyOf(one proxyCase) map[string]any {
	os.Clearenv()
	for name, value := range one.Environment {
		if err := os.Setenv(name, value); err != nil {
			return map[string]any{"error": err.Error()}
		}
	}
	server, err := url.Parse(one.Server)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	fromEnvironment := httpproxy.FromEnvironment().ProxyFunc()
	proxier := utilnet.NewProxierWithNoProxyCIDR(func(request *http.Request) (*url.URL, error) {
		return fromEnvironment(request.URL)
	})
	proxy, err := proxier(&http.Request{URL: server})
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	if proxy == nil {
		return map[string]any{"proxy": ""}
	}
	return map[string]any{"proxy": proxy.String()}
}
