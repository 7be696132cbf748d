package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const controlTimeout = 90 * time.Second

// control is the measurement's own connection to the server, which no figure includes.
type control struct {
	url    string
	client *http.Client
}

// newControl connects to url, or to the server itself where that is empty.
func newControl(config *rest.Config, url string) (*control, error) {
	client, err := rest.HTTPClientFor(rest.CopyConfig(config))
	if err != nil {
		return nil, err
	}
	client.Timeout = controlTimeout
	if url == "" {
		url = config.Host
	}
	return &control{url: url, client: client}, nil
}

func (c *control) post(path string) error {
	answer, err := c.client.Post(c.url+path, "", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return accepted(path, answer, err)
}

// sendTimes asks when the server sent each update, in their order, in monotonic nanoseconds.
func (c *control) sendTimes() ([]int64, error) {
	const path = "/benchmark/send-times"
	answer, err := c.client.Get(c.url + path)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	var sent []int64
	if answer.StatusCode == http.StatusOK {
		err = json.NewDecoder(answer.Body).Decode(&sent)
	}
	return sent, accepted(path, answer, err)
}

func accepted(path string, answer *http.Response, err error) error {
	if err == nil && answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", path, answer.Status)
	}
	return err
}
