package main

import (
	"os"
	"strings"
	"testing"
)

// Packages have the pages, and what an operator copies, each once.
func TestDocuments(t *testing.T) {
	t.Chdir("../..")
	files, err := documentFiles()
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[string]int)
	for _, file := range files {
		if sizes[file.Path] > 0 {
			t.Errorf("%s is there twice", file.Path)
		}
		sizes[file.Path] = len(file.content)
	}
	for _, name := range []string{
		"README.md", "CHANGELOG.md", "docs/README.md", "docs/runbook.md", "docs/protocol/push.md", "docs/pictures/queues-light.webp", "clients/python/README.md",
		"deploy/nats.conf", "deploy/accounts.conf", "deploy/helm/pqbridge/files/alerts.yml", "deploy/helm/pqbridge/files/grafana-dashboard.json", "examples/worker/main.go",
	} {
		if sizes["/usr/share/doc/pqbridge/"+name] == 0 {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestDaemonManual(t *testing.T) {
	const help = `pqd answers requests.

usage: pqd [--help]
.dot

VARIABLE              DEFAULT           MEANING
PQ_STORE              local:./pq-data   where the queues are kept: local:<directory>
PQ_CA                                   file with authorities…
`
	page := string(daemonManual([]byte(help)))
	const want = ".nf\npqd answers requests.\n\nusage: pqd [\\-\\-help]\n\\&.dot\n.fi\n.SH ENVIRONMENT\n" +
		".TP\n.B PQ_STORE\nwhere the queues are kept: local:<directory> (default: local:./pq\\-data)\n" +
		".TP\n.B PQ_CA\nfile with authorities\\[u2026]\n.SH FILES\n"
	if !strings.HasPrefix(page, ".TH PQD 8\n.nh\n.ad l\n.SH NAME\n") || !strings.Contains(page, want) {
		t.Errorf("found\n%s\nexpected\n%s", page, want)
	}
}

// The schemas of a release have its version in their names, and need no other file.
func TestReleasedSchemas(t *testing.T) {
	t.Chdir("../..")
	r := &releasing{version: "1.2.3", dir: t.TempDir()}
	files, err := writeSchemas(r)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 || !strings.HasSuffix(files[0], "/pqbridge_1.2.3_asyncapi.json") || !strings.HasSuffix(files[1], "/pqbridge_1.2.3_schemas.json") {
		t.Errorf("it wrote %v", files)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), "max_deliveries") || strings.Contains(string(text), `.json"`) {
			t.Errorf("%s: %d bytes, %v: expected all schemas in it", file, len(text), err)
		}
	}
}
