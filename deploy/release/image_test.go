package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"testing"
	"time"
)

// untar returns the files of a tar, and what its headers say of them.
func untar(t *testing.T, content []byte) (map[string][]byte, map[string]*tar.Header) {
	t.Helper()
	files, headers := make(map[string][]byte), make(map[string]*tar.Header)
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = h
	}
}

// An image has its programs, a user and a directory of that user; each part is found by
// its digest, as the image format wants it; and the same release has the same image.
func TestImage(t *testing.T) {
	t.Parallel()
	r := &releasing{version: "1.2.3", dir: t.TempDir(), date: time.Unix(1_700_000_000, 0)}
	for _, program := range programs {
		if err := os.WriteFile(r.file(program, "linux/arm64"), []byte("this is "+program), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var images [2][]byte
	for n := range images {
		file, err := writeImage(r, "arm64")
		if err != nil {
			t.Fatal(err)
		}
		if images[n], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(images[0], images[1]) {
		t.Error("two images of one release differ")
	}
	parts, _ := untar(t, images[0])
	part := func(digest string, to any) []byte {
		t.Helper()
		content, found := parts["blobs/sha256/"+digest[len("sha256:"):]]
		if !found || fmt.Sprintf("sha256:%x", sha256.Sum256(content)) != digest {
			t.Fatalf("%s is missing, or something else", digest)
		}
		if to != nil {
			if err := json.Unmarshal(content, to); err != nil {
				t.Fatal(err)
			}
		}
		return content
	}
	type ref struct {
		Digest   string
		Size     int
		Platform struct{ OS, Architecture string }
	}
	var index struct{ Manifests []ref }
	var manifest struct {
		Config ref
		Layers []ref
	}
	var config struct {
		OS, Architecture string
		Config           struct {
			User       string
			Entrypoint []string
		}
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(parts["index.json"], &index); err != nil || len(index.Manifests) != 1 {
		t.Fatalf("%s: %v", parts["index.json"], err)
	}
	if p := index.Manifests[0].Platform; p.OS != "linux" || p.Architecture != "arm64" {
		t.Errorf("the index says %+v", p)
	}
	part(index.Manifests[0].Digest, &manifest)
	part(manifest.Config.Digest, &config)
	if len(manifest.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 || config.Architecture != "arm64" || config.Config.User != "10001" || config.Config.Entrypoint[0] != "/usr/local/bin/pqd" {
		t.Fatalf("manifest %+v, config %+v", manifest, config)
	}
	packed := part(manifest.Layers[0].Digest, nil)
	if len(packed) != manifest.Layers[0].Size {
		t.Errorf("a layer of %d bytes, the manifest says %d", len(packed), manifest.Layers[0].Size)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	root, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("sha256:%x", sha256.Sum256(root)); sum != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer has %s, the configuration says %s", sum, config.RootFS.DiffIDs[0])
	}
	files, headers := untar(t, root)
	if h := headers["usr/local/bin/pqd"]; string(files["usr/local/bin/pqd"]) != "this is pqd" || h.Mode != 0o755 || h.Uid != 0 || !h.ModTime.Equal(r.date) {
		t.Errorf("pqd is %q, %+v", files["usr/local/bin/pqd"], h)
	}
	if h := headers["data/"]; h == nil || h.Uid != 10001 || h.Mode != 0o700 {
		t.Errorf("/data is %+v", h)
	}
	var list []struct {
		Config   string
		Layers   []string
		RepoTags []string
	}
	if err := json.Unmarshal(parts["manifest.json"], &list); err != nil || len(list) != 1 || parts[list[0].Config] == nil ||
		parts[list[0].Layers[0]] == nil || !slices.Equal(list[0].RepoTags, []string{"pqbridge:1.2.3", "pqbridge:latest"}) {
		t.Errorf("docker's list is %s, %v", parts["manifest.json"], err)
	}
}

// The packages' unit starts the program where the package puts it.
func TestPackagedUnit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../pqd.service")
	if err != nil {
		t.Fatal(err)
	}
	got := packagedUnit(unit)
	if !bytes.HasPrefix(got, []byte("[Unit]")) || !bytes.Contains(got, []byte("\nExecStart=/usr/bin/pqd\n")) || bytes.Contains(got, []byte("/usr/local")) {
		t.Errorf("the unit is\n%s", got)
	}
}
