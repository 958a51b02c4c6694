package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

// This test's own program is made of what it is made of.
func TestBill(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := newBill(self)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Components) == 0 || !strings.HasPrefix(b.Components[0].PURL, "pkg:golang/std@1.") {
		t.Errorf("found %v, expected Go's library first", b.Components)
	}
	properties := make(map[string]string)
	for _, p := range b.Metadata.Component.Properties {
		properties[p.Name] = p.Value
	}
	if properties["go:build:GOOS"] == "" || properties["go:build:GOARCH"] == "" {
		t.Errorf("the platform is missing: %v", properties)
	}
}

// Each module is in the bill with its hash: the one that was built where another replaces it.
func TestBillOfModules(t *testing.T) {
	b := billOf(&buildinfo.BuildInfo{GoVersion: "go1.26.1", Deps: []*debug.Module{
		{Path: "example.org/a", Version: "v1.0.0", Sum: "h1:a"},
		{Path: "example.org/b", Version: "v1.0.0", Sum: "h1:b", Replace: &debug.Module{Path: "example.org/c", Version: "v2.0.0+incompatible", Sum: "h1:c"}},
	}})
	var got []string
	for _, c := range b.Components {
		got = append(got, c.PURL)
		for _, p := range c.Properties {
			got = append(got, p.Name+" "+p.Value)
		}
	}
	want := []string{
		"pkg:golang/std@1.26.1",
		"pkg:golang/example.org/a@v1.0.0", "go:sum h1:a",
		"pkg:golang/example.org/c@v2.0.0%2Bincompatible", "go:sum h1:c",
	}
	if !slices.Equal(got, want) {
		t.Errorf("found %v, expected %v", got, want)
	}
}

// A bill names its program, version and checksum.
func TestBillNamesItsProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pqd")
	if err := os.Symlink(self, file); err != nil {
		t.Fatal(err)
	}
	if err := writeBill("pqd", "1.2.3", file); err != nil {
		t.Fatal(err)
	}
	sum, err := checksum(self)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file + billSuffix)
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	main := b.Metadata.Component
	if main.Name != "pqd" || main.Version != "1.2.3" || !slices.Equal(main.Hashes, []hash{{"SHA-256", sum}}) {
		t.Errorf("the bill is of %+v, expected checksum %s", main, sum)
	}
}

func TestSums(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, name := range []string{"b", "a"} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	to := filepath.Join(dir, "SHA256SUMS")
	if err := writeSums(to, files); err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(to)
	const want = `ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a
3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b
`
	if err != nil || string(sums) != want {
		t.Errorf("found %v\n%s", err, sums)
	}
}

func TestVersions(t *testing.T) {
	for version, fine := range map[string]bool{"1.2.3": true, "0.1.0-rc.1": true, "0.0.0-g1a2b3c4": true, "1.2": false, "v1.2.3": false, "": false, "1.02.3": false} {
		if versions.MatchString(version) != fine {
			t.Errorf("version %q: expected %v", version, fine)
		}
	}
	if err := (&releasing{version: "1.2", dir: t.TempDir()}).release(nil); err == nil {
		t.Error("released 1.2")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (&releasing{version: "1.2.3", dir: dir}).release(nil); err == nil {
		t.Error("released into a directory that is not empty")
	}
}

// The chart of a release has the release's version, and the files that it shares with others in place of
// the links to them.
func TestChartOfRelease(t *testing.T) {
	t.Chdir("../..")
	r := &releasing{version: "1.2.3-rc.1", dir: t.TempDir(), date: time.Unix(1_767_225_600, 0)}
	file, err := writeChart(r)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	files, headers := untar(t, content)
	about := string(files["pqbridge/Chart.yaml"])
	if !strings.Contains(about, "\nversion: 1.2.3-rc.1\n") || !strings.Contains(about, "\nappVersion: 1.2.3-rc.1\n") {
		t.Errorf("the chart is\n%s", about)
	}
	alerts, err := os.ReadFile("deploy/helm/pqbridge/files/alerts.yml")
	if err != nil || len(alerts) == 0 || !bytes.Equal(files["pqbridge/files/alerts.yml"], alerts) {
		t.Errorf("the packed alerts have %d bytes, those of the chart %d, %v", len(files["pqbridge/files/alerts.yml"]), len(alerts), err)
	}
	for name, h := range headers {
		if h.Typeflag != tar.TypeReg || !h.ModTime.Equal(r.date) {
			t.Errorf("%s is %+v", name, h)
		}
	}
	if len(files["pqbridge/templates/workload.yaml"]) == 0 || len(files["pqbridge/values.schema.json"]) == 0 {
		t.Error("the chart lacks files")
	}
}
