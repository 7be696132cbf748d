package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"

	"k8s.io/client-go/rest"
)

// regexps prints for each pattern that it reads the error of Go, or an empty text.
func regexps(string, *rest.Config, string) error {
	patterns := json.NewDecoder(os.Stdin)
	for {
		var pattern string
		if err := patterns.Decode(&pattern); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		problem := ""
		if _, err := regexp.Compile(pattern); err != nil {
			problem = err.Error()
		}
		say(map[string]any{"problem": problem})
	}
}
