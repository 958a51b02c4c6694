package main

import "path/filepath"

// generate returns each file that is made, by its path from the root.
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
		"protocol/change_gen.go":              changeSource,
		"fdbpq/config_gen.go":                 storedSource,
		"bridge/internal/codec/config_gen.go": copySource,
	} {
		if files[name], err = formatted(name, source(config)); err != nil {
			return nil, err
		}
	}
	return files, nil
}
