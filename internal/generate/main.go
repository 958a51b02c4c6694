// Command generate writes the files that follow from package protocol: schemas, the verbs of package subjects, and the
// fields of a configuration wherever they stand. It reads types by reflection and comments from the source, and imports no other package of
// ours, so it runs while those do not compile.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", ".", "the folder of the repository")
	bundle := flag.String("bundle", "", "a folder: write asyncapi.json and schemas.json there, which need no other file, and nothing else")
	flag.Parse()
	err := error(nil)
	if *bundle != "" {
		err = runBundle(*root, *bundle)
	} else {
		err = run(*root, os.Stdout)
	}
	if err != nil {
		log.Fatalf("generate: %v", err)
	}
}

// runBundle writes the schemas as releases have them: in files that need no other one.
func runBundle(root, to string) error {
	said, err := readComments(filepath.Join(root, "protocol"))
	if err != nil {
		return err
	}
	config, err := configFields(said)
	if err != nil {
		return err
	}
	types := newTypes(said, config)
	api, err := asyncAPI(types, true)
	if err != nil {
		return err
	}
	schemas, err := types.bundled()
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"asyncapi.json": api, "schemas.json": schemas} {
		if err := os.WriteFile(filepath.Join(to, name), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// run writes the files that have changed, removes the files of types that are gone, and prints which.
func run(root string, said io.Writer) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(root, name)
		before, err := os.ReadFile(path)
		if err == nil && bytes.Equal(before, files[name]) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, files[name], 0o666); err != nil {
			return err
		}
		fmt.Fprintln(said, "wrote", name)
	}
	gone, err := leftOver(root, files)
	if err != nil {
		return err
	}
	for _, name := range gone {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return err
		}
		fmt.Fprintln(said, "removed", name)
	}
	return nil
}

// leftOver are the schemas of types that are gone.
func leftOver(root string, files map[string][]byte) (gone []string, err error) {
	there, err := filepath.Glob(filepath.Join(root, schemaFolder, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range there {
		if name := schemaFolder + "/" + filepath.Base(path); files[name] == nil {
			gone = append(gone, name)
		}
	}
	return gone, nil
}
