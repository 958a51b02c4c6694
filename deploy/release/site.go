package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
)

// writeSite packs the site of the pages, and returns its file. It needs pip, which brings mdBook.
func writeSite(r *releasing) (string, error) {
	dir, err := os.MkdirTemp("", "pqbridge-site-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	venv, site := filepath.Join(dir, "venv"), filepath.Join(dir, "site")
	for _, command := range [][]string{
		{"python3", "-m", "venv", venv},
		{filepath.Join(venv, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r", "deploy/site/requirements.txt"},
		{"go", "run", "./deploy/site", "-mdbook", filepath.Join(venv, "bin", "mdbook"), "-o", site},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%q: %w: %s", command, err, out)
		}
	}
	name := fmt.Sprintf("pqbridge_%s_site", r.version)
	packed, err := r.pack(os.DirFS(site), name, func(_ string, content []byte) []byte { return content })
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, name+".tar.gz")
	return file, os.WriteFile(file, packed, 0o644)
}

// pack packs files into a folder, each with the date of the release.
func (r *releasing) pack(files fs.FS, folder string, change func(name string, content []byte) []byte) ([]byte, error) {
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		writeEntry(t, &tar.Header{Name: path.Join(folder, name), Mode: 0o644, ModTime: r.date}, change(name, content))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	return compress(out.Bytes()), nil
}
