// Command client_go is client-go as a peer of the benchmarks.
//
// In goes a subcommand: `render` turns JSON objects into the protobuf that an API server sends,
// `informer` follows a collection of the replay server, `queue` times work queues, `states` prints changes. Out come bytes
// (render), one line `MEASUREMENT {json}` (informer), one line of JSON (queue) or of text (states).
//
// Invariant: only client-go's own public entry points are timed, configured as its users do.
package main

import (
	"fmt"
	"os"
)

var subcommands = map[string]func(arguments []string) error{
	"informer": informer,
	"queue":    queue,
	"render":   render,
	"states":   states,
}

func main() {
	if len(os.Args) < 2 || subcommands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: client_go render|informer|queue|states [flags]")
		os.Exit(2)
	}
	if err := subcommands[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
