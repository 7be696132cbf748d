package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// workload is what the server holds, and what is done with it: harness/phases.py's Workload, whose
// docstrings say what each field means. Fields that are not known here are ignored.
type workload struct {
	URL                 string  `json:"url"`
	Objects             int     `json:"objects"`
	Updates             int     `json:"updates"`
	LastResourceVersion string  `json:"last_resource_version"`
	APIVersion          string  `json:"api_version"`
	Resource            string  `json:"resource"`
	Kind                string  `json:"kind"`
	CAFile              string  `json:"ca_file"`
	Token               string  `json:"token"`
	TokenFile           string  `json:"token_file"`
	Handler             string  `json:"handler"`
	Handlers            int     `json:"handlers"`
	Indexes             int     `json:"indexes"`
	UpdatesPerSecond    float64 `json:"updates_per_second"`
	Load                string  `json:"load"`
	Work                string  `json:"work"`
	ControlURL          string  `json:"control_url"`
	RestSeconds         float64 `json:"rest_seconds"`
}

func readWorkload(text string) (workload, error) {
	found := workload{
		APIVersion: "v1", Resource: "pods", Kind: "Pod",
		Handler: "metadata", Handlers: 1, Indexes: 1, Load: "default",
		Work: "follow",
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return found, fmt.Errorf("--workload: %w", err)
	}
	return found, nil
}

func (w workload) groupVersionResource() (schema.GroupVersionResource, error) {
	version, err := schema.ParseGroupVersion(w.APIVersion)
	return version.WithResource(w.Resource), err
}

// firstUpdate is the resource version of the first update; each later one is one higher.
func (w workload) firstUpdate() (int, error) {
	last, err := strconv.Atoi(w.LastResourceVersion)
	return last - w.Updates + 1, err
}

// measurement is harness/phases.py's Measurement. A nil figure was not produced: a Go program has
// no event loop that could be blocked, for one.
type measurement struct {
	Peer                  string             `json:"peer"`
	Error                 *string            `json:"error"`
	Objects               int                `json:"objects"`
	SyncWallSeconds       *float64           `json:"sync_wall_seconds"`
	SyncCPUSeconds        *float64           `json:"sync_cpu_seconds"`
	LongestGCPauseSeconds *float64           `json:"longest_gc_pause_seconds"`
	RSSBeforeBytes        *int64             `json:"rss_before_bytes"`
	RSSAfterBytes         *int64             `json:"rss_after_bytes"`
	PeakRSSBytes          *int64             `json:"peak_rss_bytes"`
	Updates               int                `json:"updates"`
	UpdatesSeen           *int               `json:"updates_seen"`
	UpdateWallSeconds     *float64           `json:"update_wall_seconds"`
	UpdateCPUSeconds      *float64           `json:"update_cpu_seconds"`
	Extra                 map[string]float64 `json:"extra"`
}

// print writes the line by which the harness knows the figures from all else that is printed.
func (m measurement) print() error {
	if m.Extra == nil { // of a peer that failed: the reader wants an object
		m.Extra = map[string]float64{}
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = fmt.Printf("MEASUREMENT %s\n", text)
	}
	return err
}
