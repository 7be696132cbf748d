package main

import (
	"flag"
	"fmt"
	"strings"
)

// runs are what an informer is measured at, by the workload's word for it; the name of the peer may
// say it too, after its own: `client-go-json-relist`.
var runs = map[string]func(*session) error{
	"follow": followUpdates,
	"relist": relist,
	"reads":  timeReads,
	"starts": timeStarts,
	"rest":   timeRest,
}

// session is all that a run is given.
type session struct {
	workload workload
	sources  sources
	watch    *stopwatch
}

// informer measures one peer once and prints its measurement; a failure is a measurement too.
func informer(arguments []string) error {
	flags := flag.NewFlagSet("informer", flag.ExitOnError)
	peer := flags.String("peer", "", "client-go-json, -protobuf, -metadata or -dynamic")
	text := flags.String("workload", "{}", "what the server holds, as JSON")
	cpu := flags.Int("cpu", -1, "where to run; -1 for anywhere")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *cpu >= 0 {
		if err := pinTo(*cpu); err != nil {
			return fmt.Errorf("--cpu: %w", err)
		}
	}
	found, err := measure(*peer, *text)
	if err != nil {
		reason := err.Error()
		found = measurement{Peer: *peer, Error: &reason}
	}
	return found.print()
}

func measure(peer, text string) (measurement, error) {
	workload, err := readWorkload(text)
	if err != nil {
		return measurement{}, err
	}
	if err := chooseLoad(workload.Load); err != nil {
		return measurement{}, err
	}
	client, run := splitPeer(peer)
	if run == "" {
		run = workload.Work
	}
	sources, err := newSources(client, workload)
	if err != nil {
		return measurement{}, err
	}
	control, err := newControl(restConfig(workload), workload.ControlURL)
	if err != nil {
		return measurement{}, err
	}
	watch := newStopwatch(peer, control)
	if runs[run] == nil {
		return measurement{}, fmt.Errorf("nothing is called %q", run)
	}
	if err := runs[run](&session{workload, sources, watch}); err != nil {
		return measurement{}, err
	}
	return watch.finished(), nil
}

// splitPeer tells the client in a peer's name from the run.
func splitPeer(peer string) (client, run string) {
	for run := range runs {
		if client, found := strings.CutSuffix(peer, "-"+run); found {
			return client, run
		}
	}
	return peer, ""
}

// sync starts a follower and measures until it has everything.
func (s *session) sync(source source) (*follower, error) {
	follower, err := newFollower(source, s.workload)
	if err != nil {
		return nil, err
	}
	s.watch.begin()
	follower.start()
	if err := follower.synced(); err != nil {
		return nil, err
	}
	s.watch.synced(len(follower.informer.GetStore().ListKeys()))
	return follower, nil
}

// followUpdates measures the sync and, if the server has updates, these; where the server paces
// them, their latency too.
func followUpdates(s *session) error {
	follower, err := s.sync(s.sources(""))
	if err != nil || s.workload.Updates == 0 {
		return err
	}
	defer follower.close()
	first := follower.handlers[0]
	if s.workload.UpdatesPerSecond > 0 {
		first.arrivals = make([]arrival, 0, s.workload.Updates)
	}
	if err := s.watch.releaseUpdates(); err != nil {
		return err
	}
	if err := follower.updated(); err != nil {
		return err
	}
	s.watch.updated(s.workload.Updates, first.updates)
	if s.workload.UpdatesPerSecond > 0 {
		return s.addLatencies(first.arrivals)
	}
	return nil
}
