// Schemas writes the JSON schemas by which kubeconform checks what the chart renders, into a
// directory:
//
//	go run ./deploy/helm/schemas -o schemas
//	kubeconform -strict -schema-location 'schemas/{{.Group}}_{{.ResourceAPIVersion}}_{{.ResourceKind}}.json' …
//
// They come from the API descriptions in the Go modules of Kubernetes and of the operators,
// which are downloaded once, at versions and with checksums that stand here. So a check needs no
// other server than that of the modules, and none when it runs again. No package of theirs is
// compiled.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// source is a module that describes kinds of objects.
type source struct {
	module, sum string
	files       []string
	read        func(text []byte, write func(name, schema)) error
}

// schema is a part of a JSON schema.
type schema = map[string]any

var sources = []source{
	{"k8s.io/kubernetes@v1.34.4", "h1:Yy6R4QB8C9kJPp25GFqEvX5XQwY5qzKeqD0Xx6oAcmk=", []string{"api/openapi-spec/swagger.json"}, builtIn},
	{"github.com/prometheus-operator/prometheus-operator@v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=", []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	}, custom},
	{"github.com/cert-manager/cert-manager@v1.21.2", "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=", []string{"deploy/crds/cert-manager.io_certificates.yaml"}, custom},
	{"github.com/kedacore/keda/v2@v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=", []string{
		"config/crd/bases/keda.sh_scaledobjects.yaml",
		"config/crd/bases/keda.sh_triggerauthentications.yaml",
	}, custom},
}

// kinds are those of Kubernetes itself that the chart may have.
var kinds = map[name]bool{
	{"", "v1", "Service"}: true, {"", "v1", "ConfigMap"}: true, {"apps", "v1", "StatefulSet"}: true, {"apps", "v1", "Deployment"}: true,
	{"policy", "v1", "PodDisruptionBudget"}: true, {"networking.k8s.io", "v1", "NetworkPolicy"}: true,
}

// name is that of a kind.
type name struct{ Group, Version, Kind string }

// file is what kubeconform looks for: the group of Kubernetes' first kinds is their version to it.
func (n name) file() string {
	return fmt.Sprintf("%s_%s_%s.json", cmp.Or(n.Group, n.Version), n.Version, strings.ToLower(n.Kind))
}

func main() {
	dir := flag.String("o", "", "directory for the schemas")
	flag.Parse()
	for _, s := range sources {
		if err := s.write(*dir); err != nil {
			log.Fatalf("schemas of %s: %v", s.module, err)
		}
	}
}

func (s source) write(dir string) error {
	cmd := exec.Command("go", "mod", "download", "-json", s.module)
	cmd.Dir = os.TempDir() // in no module: this one needs none of these
	out, err := cmd.Output()
	var module struct{ Dir, Sum, Error string }
	if err := errors.Join(json.Unmarshal(out, &module), err); err != nil || module.Error != "" {
		return fmt.Errorf("download: %w %s", err, module.Error)
	}
	if module.Sum != s.sum {
		return fmt.Errorf("the checksum is %s, expected %s", module.Sum, s.sum)
	}
	for _, file := range s.files {
		text, err := os.ReadFile(filepath.Join(module.Dir, file))
		if err != nil {
			return err
		}
		wrote := 0
		err = s.read(text, func(n name, kind schema) {
			var content []byte
			if content, err = json.Marshal(kind); err == nil {
				err = os.WriteFile(filepath.Join(dir, n.file()), content, 0o644)
			}
			if err != nil {
				log.Fatal(err)
			}
			wrote++
		})
		if err != nil || wrote == 0 {
			return fmt.Errorf("%s describes %d kinds: %w", file, wrote, err)
		}
	}
	return nil
}

// builtIn reads the description of Kubernetes' own API.
func builtIn(text []byte, write func(name, schema)) error {
	var api struct{ Definitions map[string]schema }
	if err := json.Unmarshal(text, &api); err != nil {
		return err
	}
	for _, definition := range api.Definitions {
		closed(definition)
	}
	for definition, content := range api.Definitions {
		names, err := convert[[]name](content["x-kubernetes-group-version-kind"])
		if err != nil {
			return err
		}
		if len(names) == 1 && kinds[names[0]] {
			needed := make(map[string]schema)
			collect(api.Definitions, definition, needed)
			write(names[0], schema{"$ref": "#/definitions/" + definition, "definitions": needed})
		}
	}
	return nil
}

// collect finds the definitions that one refers to.
func collect(all map[string]schema, definition string, found map[string]schema) {
	if found[definition] != nil {
		return
	}
	found[definition] = all[definition]
	walk(all[definition], func(part schema) {
		if reference, is := part["$ref"].(string); is {
			collect(all, strings.TrimPrefix(reference, "#/definitions/"), found)
		}
	})
}

// custom reads a definition of a custom resource.
func custom(text []byte, write func(name, schema)) error {
	var definition struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					Kind schema `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return err
	}
	for _, version := range definition.Spec.Versions {
		kind := version.Schema.Kind
		if properties, is := kind["properties"].(schema); is {
			properties["metadata"] = schema{"type": "object"} // Kubernetes' own: without a description here
		}
		closed(kind)
		write(name{definition.Spec.Group, version.Name, definition.Spec.Names.Kind}, kind)
	}
	return nil
}

// closed refuses fields that a description does not have, and takes numbers where they may stand
// for texts.
func closed(description schema) {
	walk(description, func(part schema) {
		_, fields := part["properties"].(schema)
		_, more := part["additionalProperties"]
		if open, _ := part["x-kubernetes-preserve-unknown-fields"].(bool); fields && !more && !open {
			part["additionalProperties"] = false
		}
		if either, _ := part["x-kubernetes-int-or-string"].(bool); either || part["format"] == "int-or-string" {
			part["type"] = []string{"string", "integer"}
		}
		delete(part, "format") // sizes of integers, which JSON does not know
	})
}

// walk visits a schema and those within. The fields of "properties" are names, not words of a schema.
func walk(part schema, visit func(schema)) {
	visit(part)
	for word, content := range maps.Clone(part) {
		switch content := content.(type) {
		case schema:
			if word != "properties" {
				walk(content, visit)
				continue
			}
			for _, field := range content {
				if field, is := field.(schema); is {
					walk(field, visit)
				}
			}
		case []any:
			for _, one := range content {
				if one, is := one.(schema); is {
					walk(one, visit)
				}
			}
		}
	}
}

func convert[T any](value any) (converted T, err error) {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &converted)
	}
	return converted, err
}
