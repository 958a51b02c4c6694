package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// generate returns each generated file, and each file with a generated region, by its path from the root.
func generate(root string) (map[string][]byte, error) {
	said, err := readComments(filepath.Join(root, "protocol"))
	if err != nil {
		return nil, err
	}
	config, err := configFields(said)
	if err != nil {
		return nil, err
	}
	types := newTypes(said, config)
	files, err := types.files()
	if err != nil {
		return nil, err
	}
	if files["protocol/asyncapi.json"], err = asyncAPI(types); err != nil {
		return nil, err
	}
	for name, source := range map[string]func([]field) string{
		"protocol/change_gen.go":               changeSource,
		"fdbpq/config_gen.go":                  storedSource,
		"bridge/internal/codec/config_gen.go":  copySource,
		"internal/console/page/configfield.js": explainedSource,
	} {
		if files[name], err = formatted(name, source(config)); err != nil {
			return nil, err
		}
	}
	for name, region := range map[string]func([]field) string{
		"docs/protocol/admin.md":        pageRegion,
		"internal/gateway/openapi.yaml": openAPIRegion,
	} {
		before, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		after, err := replaceRegion(string(before), region(config))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		files[name] = []byte(after)
	}
	return files, nil
}

// replaceRegion replaces the text between the lines with "generated: config" and "/generated".
func replaceRegion(text, by string) (string, error) {
	before, rest, begins := strings.Cut(text, "generated: config")
	inside, _, ends := strings.Cut(rest, "/generated")
	if !begins || !ends {
		return "", fmt.Errorf("expected a line with generated: config, and one with /generated")
	}
	first, _, _ := strings.Cut(inside, "\n") // the rest of the line that begins the region
	last := inside[strings.LastIndexByte(inside, '\n')+1:]
	after := rest[len(inside):]
	return before + "generated: config" + first + "\n" + by + last + after, nil
}
