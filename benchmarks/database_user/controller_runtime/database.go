package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// database is the service outside of the cluster in which the users are.
type database struct {
	url    string
	client *http.Client
}

func newDatabase(url string) database {
	return database{url, &http.Client{Timeout: 10 * time.Second}}
}

func (d database) put(ctx context.Context, id, password, name string) error {
	return d.send(ctx, http.MethodPut, id, map[string]string{"password": password, "database": name})
}

func (d database) drop(ctx context.Context, id string) error {
	return d.send(ctx, http.MethodDelete, id, nil)
}

func (d database) send(ctx context.Context, method, id string, body map[string]string) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, d.url+"/users/"+id, bytes.NewReader(content))
	if err != nil {
		return err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s of user %s: %s", method, id, response.Status)
	}
	return nil
}
