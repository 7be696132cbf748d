package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
)

// yamls prints the value of each text that it reads, as the API server reads the body of an apply.
func yamls(string, *rest.Config, string) error {
	texts := json.NewDecoder(os.Stdin)
	for {
		var text []byte
		if err := texts.Decode(&text); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var value any
		if err := yaml.Unmarshal(text, &value); err != nil {
			say(map[string]any{"error": err.Error()})
		} else {
			say(map[string]any{"value": value})
		}
	}
}
