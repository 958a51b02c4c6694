package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
)

// chartVersions are the lines of Chart.yaml that a release sets to its own version.
var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// writeChart packs the Helm chart, and returns its file.
func writeChart(r *releasing) (string, error) {
	const name = "pqbridge"
	root := filepath.Join("deploy", "helm", name)
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		within, err := filepath.Rel(root, file)
		if within == "Chart.yaml" {
			content = chartVersions.ReplaceAll(content, []byte("${1}: "+r.version))
		}
		writeEntry(t, &tar.Header{Name: path.Join(name, filepath.ToSlash(within)), Mode: 0o644, ModTime: r.date}, content)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := t.Close(); err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, fmt.Sprintf("%s_%s_helm.tgz", name, r.version)) // not -<version>.tgz: npm gives a client that name
	return file, os.WriteFile(file, compress(out.Bytes()), 0o644)
}
