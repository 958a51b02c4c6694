package main

import (
	"os"
	"strings"
	"testing"
)

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
