package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// chartVersions are the lines of Chart.yaml that a release sets to its own version.
var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// writeChart packs the Helm chart, and returns its file.
func writeChart(r *releasing) (string, error) {
	const name = "pqbridge"
	packed, err := r.pack(os.DirFS(filepath.Join("deploy", "helm", name)), name, func(file string, content []byte) []byte {
		if file == "Chart.yaml" {
			return chartVersions.ReplaceAll(content, []byte("${1}: "+r.version))
		}
		return content
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, fmt.Sprintf("%s_%s_helm.tgz", name, r.version)) // not -<version>.tgz: npm gives a client that name
	return file, os.WriteFile(file, packed, 0o644)
}
