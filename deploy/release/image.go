package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An image of the two static programs, with the settings of the Dockerfile's image, as a
// tar that `docker load`, podman and skopeo take: an OCI layout, and beside it the list by
// which older versions of docker find its parts. It has no shell, and no certificates of
// public authorities: NATS_CA names those of a server.
const (
	imageUser = 10001
	imageName = "pqbridge"

	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// descriptor names a part of an image.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imagePlatform struct {
	OS   string `json:"os"`
	Arch string `json:"architecture"`
}

// layout is an image's parts by their names in its tar.
type layout map[string][]byte

func (l layout) add(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	l["blobs/sha256/"+digest] = content
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

// writeImage writes the image for Linux on an architecture, and returns its file.
func writeImage(r *releasing, arch string) (string, error) {
	root, err := imageRoot(r, arch)
	if err != nil {
		return "", err
	}
	parts := make(layout)
	layer := parts.add(typeLayer, compress(root))
	plain := sha256.Sum256(root)
	config, err := json.Marshal(map[string]any{
		"created": r.date.UTC().Format(time.RFC3339), "os": "linux", "architecture": arch,
		"config": map[string]any{
			"User": fmt.Sprint(imageUser), "WorkingDir": "/data", "Entrypoint": []string{"/usr/local/bin/pqd"},
			"Env":          []string{"PATH=/usr/local/bin", "PQ_STORE=local:/data", "PQ_LISTEN=0.0.0.0:4222", "PQ_HTTP=0.0.0.0:8622", "PQ_LOG=json"},
			"ExposedPorts": map[string]any{"4222/tcp": struct{}{}, "8622/tcp": struct{}{}},
			"Volumes":      map[string]any{"/data": struct{}{}},
			"StopSignal":   "SIGTERM",
			"Healthcheck":  map[string]any{"Test": []string{"CMD", "pqd", "probe"}, "Interval": 5 * time.Second, "Timeout": 3 * time.Second, "StartPeriod": 20 * time.Second},
			"Labels":       map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0", "org.opencontainers.image.source": "https://github.com/pqbridge/pqbridge"},
		},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(plain[:])}},
	})
	if err != nil {
		return "", err
	}
	described := parts.add(typeConfig, config)
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": typeManifest, "config": described, "layers": []descriptor{layer}})
	if err != nil {
		return "", err
	}
	image := parts.add(typeManifest, manifest)
	image.Platform = &imagePlatform{"linux", arch}
	image.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	for name, value := range map[string]any{
		"oci-layout": map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json": map[string]any{"schemaVersion": 2, "mediaType": typeIndex, "manifests": []descriptor{image}},
		"manifest.json": []map[string]any{{
			"Config": blob(described), "Layers": []string{blob(layer)}, "RepoTags": []string{imageName + ":" + imageTag(r.version), imageName + ":latest"},
		}},
	} {
		if parts[name], err = json.Marshal(value); err != nil {
			return "", err
		}
	}
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	for _, name := range sortedNames(parts) {
		writeEntry(t, &tar.Header{Name: name, Mode: 0o644, ModTime: r.date}, parts[name])
	}
	if err := t.Close(); err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, fmt.Sprintf("pqbridge_%s_linux_%s.oci.tar", r.version, arch))
	return file, os.WriteFile(file, out.Bytes(), 0o644)
}

// imageRoot is the file system of the image, as a tar.
func imageRoot(r *releasing, arch string) ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	dir := func(name string, mode int64, owner int) {
		writeEntry(t, &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, Uid: owner, Gid: owner, ModTime: r.date}, nil)
	}
	dir("etc", 0o755, 0)
	writeEntry(t, &tar.Header{Name: "etc/passwd", Mode: 0o644, ModTime: r.date}, fmt.Appendf(nil, "pq:x:%d:%d::/data:/\n", imageUser, imageUser))
	dir("tmp", 0o1777, 0)
	for _, name := range []string{"usr", "usr/local", "usr/local/bin"} {
		dir(name, 0o755, 0)
	}
	for _, program := range programs {
		content, err := os.ReadFile(r.file(program, "linux/"+arch))
		if err != nil {
			return nil, err
		}
		writeEntry(t, &tar.Header{Name: "usr/local/bin/" + program, Mode: 0o755, ModTime: r.date}, content)
	}
	dir("data", 0o700, imageUser)
	return out.Bytes(), t.Close()
}

// writeEntry cannot fail: it writes to memory, and the header has the size of the content.
func writeEntry(t *tar.Writer, h *tar.Header, content []byte) {
	h.Size, h.Format = int64(len(content)), tar.FormatPAX
	if err := t.WriteHeader(h); err != nil {
		panic(err)
	}
	if _, err := t.Write(content); err != nil {
		panic(err)
	}
}

func compress(content []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	_, _ = io.Copy(z, bytes.NewReader(content)) // memory takes all
	_ = z.Close()
	return out.Bytes()
}

func blob(d descriptor) string { return path.Join("blobs", strings.ReplaceAll(d.Digest, ":", "/")) }

// imageTag is the version as a tag, which has no plus sign.
func imageTag(version string) string { return strings.ReplaceAll(version, "+", "-") }

func sortedNames(l layout) []string {
	names := make([]string, 0, len(l))
	for name := range l {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
