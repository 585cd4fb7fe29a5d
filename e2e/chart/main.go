// Command chart prints what `helm template RELEASE CHART --namespace NAMESPACE --include-crds` prints, with Helm's own
// packages, so that tests need no helm. The values come as JSON from standard input.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: chart RELEASE CHART NAMESPACE < VALUES.json")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(release, path, namespace string) error {
	chart, err := loader.Load(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var given map[string]any
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	options := common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}
	// Checks the values against the schema of the chart.
	values, err := util.ToRenderValues(chart, given, options, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		return err
	}
	for _, crd := range chart.CRDObjects() {
		fmt.Printf("---\n%s\n", crd.File.Data)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") {
			fmt.Printf("---\n%s\n", files[name])
		}
	}
	return nil
}
