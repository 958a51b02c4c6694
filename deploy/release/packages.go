package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// nfpm makes packages of Linux distributions. It runs by its pinned version, so that
// the module does not have its dependencies.
const nfpm = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"

// Both formats start from the unit of the repository, and keep the settings of
// whoever has changed them.
var packageConfig = template.Must(template.New("nfpm").Parse(`
name: pqbridge
arch: {{.Arch}}
platform: linux
version: {{.Version}}
version_schema: semver
section: net
maintainer: The pqbridge authors <https://github.com/pqbridge/pqbridge/issues>
description: |
  Durable, transactional, double-ended priority queues for NATS clients.
  pqd is the broker, pq its command line.
homepage: https://github.com/pqbridge/pqbridge
license: Apache-2.0
mtime: {{.Date}}
contents:
- {src: {{.PQD}}, dst: /usr/bin/pqd, file_info: {mode: 0755, mtime: {{.Date}}}}
- {src: {{.PQ}}, dst: /usr/bin/pq, file_info: {mode: 0755, mtime: {{.Date}}}}
- {src: {{.Dir}}/pqd.service, dst: /usr/lib/systemd/system/pqd.service, file_info: {mode: 0644, mtime: {{.Date}}}}
- {src: {{.Dir}}/pqd.env, dst: /etc/pqd.env, type: config|noreplace, file_info: {mode: 0600, mtime: {{.Date}}}}
- {src: {{.Dir}}/copyright, dst: /usr/share/doc/pqbridge/copyright, file_info: {mode: 0644, mtime: {{.Date}}}}
{{- range .Shared}}
- {src: {{.Source}}, dst: {{.Path}}, {{with .Packager}}packager: {{.}}, {{end}}file_info: {mode: 0644, mtime: {{$.Date}}}}
{{- end}}
scripts:
  postinstall: {{.Dir}}/installed.sh
  preremove: {{.Dir}}/removed.sh
  postremove: {{.Dir}}/purged.sh
`))

//go:embed installed.sh
var installedScript []byte

//go:embed removed.sh
var removedScript []byte

//go:embed purged.sh
var purgedScript []byte

const emptySettings = "# Settings of pqd, one VARIABLE=value a line; pqd --help has them.\n"

// writePackages makes a .deb and an .rpm of the programs for Linux, and returns their
// files.
func writePackages(r *releasing, arch string, shared []sharedFile) (files []string, err error) {
	dir, err := os.MkdirTemp("", "pqbridge-package-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	unit, err := os.ReadFile("deploy/pqd.service")
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return nil, err
	}
	contents, err := writeShared(dir, shared)
	if err != nil {
		return nil, err
	}
	var config bytes.Buffer
	if err := packageConfig.Execute(&config, map[string]any{
		"Shared": contents,
		"Arch":   arch, "Version": r.version, "Dir": dir, "Date": r.date.UTC().Format(time.RFC3339),
		"PQD": r.file("pqd", "linux/"+arch), "PQ": r.file("pq", "linux/"+arch),
	}); err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{
		"nfpm.yaml": config.Bytes(), "pqd.service": packagedUnit(unit), "pqd.env": []byte(emptySettings),
		"copyright": license, "installed.sh": installedScript, "removed.sh": removedScript, "purged.sh": purgedScript,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return nil, err
		}
	}
	for _, format := range []string{"deb", "rpm"} {
		file := filepath.Join(r.dir, fmt.Sprintf("pqbridge_%s_linux_%s.%s", r.version, arch, format))
		cmd := exec.Command("go", "run", nfpm, "package", "--config", filepath.Join(dir, "nfpm.yaml"), "--packager", format, "--target", file)
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off", fmt.Sprint("SOURCE_DATE_EPOCH=", r.date.Unix()))
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", file, err, out)
		}
		files = append(files, file)
	}
	return files, nil
}

// packagedUnit is the unit for programs in /usr/bin, without the commands that install
// it by hand.
func packagedUnit(unit []byte) []byte {
	text := string(unit)
	if start := strings.Index(text, "[Unit]"); start >= 0 {
		text = text[start:]
	}
	return []byte(strings.ReplaceAll(text, "/usr/local/bin/pqd", "/usr/bin/pqd"))
}
