package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

const openAPIFile = "internal/gateway/openapi.yaml"

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
	if files["protocol/asyncapi.json"], err = asyncAPI(types, false); err != nil {
		return nil, err
	}
	grammar, err := newGrammar(protocol.Ops)
	if err != nil {
		return nil, err
	}
	for name, source := range map[string]string{
		"protocol/change_gen.go":               changeSource(config),
		"fdbpq/config_gen.go":                  storedSource(config),
		"bridge/internal/codec/config_gen.go":  copySource(config),
		"internal/console/page/configfield.js": explainedSource(config),
		"subjects/verb_gen.go":                 verbSource(grammar),
		"clients/js/src/again.js":              againJS(),
		"clients/python/pqbridge/again.py":     againPython(),
	} {
		if files[name], err = formatted(name, source); err != nil {
			return nil, err
		}
	}
	if err := headerFiles(root, files); err != nil {
		return nil, err
	}
	described, err := os.ReadFile(filepath.Join(root, openAPIFile))
	if err != nil {
		return nil, err
	}
	paths, schemas, err := passedOn(types, protocol.Ops, string(described))
	if err != nil {
		return nil, err
	}
	for _, r := range []struct{ file, region, text string }{
		{openAPIFile, regionPassed, paths},
		{openAPIFile, regionSchemas, schemas},
		{"docs/protocol/admin.md", "config", pageRegion(config)},
		{"deploy/nats.conf", "requests of a viewer", grammar.confRegion("pq.*.", protocol.Viewer)},
		{"deploy/nats.conf", "requests of an admin", grammar.confRegion("pq.jobs.", protocol.Admin)},
		{openAPIFile, "config", openAPIRegion(config)},
		{openAPIFile, "parameters of a push", pushParameters(protocol.PushHeaders)},
		{openAPIFile, "fields of a pushed item", pushFields(protocol.PushHeaders)},
		{openAPIFile, "what stays of a push", itemProperties(protocol.PushHeaders)},
	} {
		before := files[r.file]
		if before == nil {
			if before, err = os.ReadFile(filepath.Join(root, r.file)); err != nil {
				return nil, err
			}
		}
		after, err := replaceRegion(string(before), r.region, r.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.file, err)
		}
		files[r.file] = []byte(after)
	}
	return files, nil
}

// headerFiles adds the readers and writers of headers.
func headerFiles(root string, files map[string][]byte) error {
	of, err := readStructs(root, "protocol", "fdbpq", "client")
	if err != nil {
		return err
	}
	names, err := headerNames(root)
	if err != nil {
		return err
	}
	h := &headers{of: of, names: names, push: protocol.PushHeaders, ofItem: protocol.ItemHeaders}
	for name, source := range map[string]func() (string, error){
		"bridge/internal/codec/headers_gen.go": h.codecSource,
		"client/item_gen.go":                   h.clientSource,
		"client/import_gen.go":                 h.importSource,
		"client/list_gen.go":                   h.listSource,
		"internal/gateway/item_gen.go":         h.gatewaySource,
		"protocol/list_gen.go":                 h.listedSource,
		"client/errors_gen.go":                 func() (string, error) { return reasonSource(root) },
		"cmd/pq/internal/show/item_gen.go":     h.showSource,
	} {
		text, err := source()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if files[name], err = formatted(name, text); err != nil {
			return err
		}
	}
	return nil
}

// replaceRegion replaces the text between the lines with "generated: <region>" and "/generated".
func replaceRegion(text, region, by string) (string, error) {
	begin := "generated: " + region
	before, rest, begins := strings.Cut(text, begin)
	inside, _, ends := strings.Cut(rest, "/generated")
	if !begins || !ends {
		return "", fmt.Errorf("expected a line with %s, and one with /generated", begin)
	}
	first, _, _ := strings.Cut(inside, "\n") // the rest of the line that begins the region
	last := inside[strings.LastIndexByte(inside, '\n')+1:]
	after := rest[len(inside):]
	return before + begin + first + "\n" + by + last + after, nil
}
