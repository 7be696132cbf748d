// Renders a chart as `helm template` does: helm CHART RELEASE NAMESPACE [KEY=VALUE]...
package main

import (
	"fmt"
	"os"
	"slices"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/strvals"
)

func main() {
	if err := render(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(path, release, namespace string, set []string) error {
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	values := map[string]any{}
	for _, each := range set {
		if err := strvals.ParseInto(each, values); err != nil {
			return err
		}
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, values, options, nil)
	if err != nil {
		return err
	}
	rendered, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return err
	}
	for _, crd := range chart.CRDObjects() {
		rendered[crd.Filename] = string(crd.File.Data)
	}
	names := []string{}
	for name := range rendered {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("---\n%s\n", rendered[name])
	}
	return nil
}
