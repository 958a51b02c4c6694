package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// pythonBuild makes wheels and source distributions; the back end that pyproject.toml
// names makes the same bytes of the same files.
const pythonBuild = "build==1.6.1"

// writeClients packs the clients for JavaScript and Python, which have versions of their
// own, and returns their files.
func writeClients(r *releasing) ([]string, error) {
	dir, err := filepath.Abs(r.dir)
	if err != nil {
		return nil, err
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	venv, err := os.MkdirTemp("", "pqbridge-python-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(venv)
	python := filepath.Join(venv, "bin", "python")
	for _, command := range [][]string{
		{"npm", "pack", "./clients/js", "--silent", "--pack-destination", dir},
		{"python3", "-m", "venv", venv},
		{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", pythonBuild},
		{python, "-m", "build", "--outdir", dir, "clients/python"},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), fmt.Sprint("SOURCE_DATE_EPOCH=", r.date.Unix()))
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%q: %w: %s", command, err, out)
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range after {
		if !slices.ContainsFunc(before, func(b os.DirEntry) bool { return b.Name() == entry.Name() }) {
			files = append(files, filepath.Join(r.dir, entry.Name()))
		}
	}
	return files, nil
}
