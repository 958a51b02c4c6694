package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// writeSchemas writes the schemas of the protocol in files that need no other one, and returns the files.
func writeSchemas(r *releasing) (files []string, err error) {
	dir, err := os.MkdirTemp("", "pqbridge-schemas-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("go", "run", "./internal/generate", "-bundle", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("bundle schemas: %w: %s", err, out)
	}
	for _, name := range []string{"asyncapi.json", "schemas.json"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		file := filepath.Join(r.dir, fmt.Sprintf("pqbridge_%s_%s", r.version, name))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}
