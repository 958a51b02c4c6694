package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/internal/roff"
)

// documents are the files of the repository that packages have, in folders as here, so that the links between them lead
// somewhere: the pages, and the configurations, alerts, dashboard and examples that they name.
var documents = []string{
	"*.md", "docs/*.md", "docs/*.svg", "docs/pictures/*", "docs/protocol/*.md", "clients/*/README.md",
	"deploy/*.conf", "deploy/compose-cluster.yml", "deploy/*.yaml", "deploy/pqd.service", "deploy/helm/pqbridge/files/*",
	"docker-compose.yml", "examples/*.md", "examples/*/*.*", "examples/llm/*/*",
}

// The folders that packages put files into. Debian and others differ in that for zsh.
const (
	documentsDir   = "/usr/share/doc/pqbridge"
	bashDir        = "/usr/share/bash-completion/completions"
	fishDir        = "/usr/share/fish/vendor_completions.d"
	zshDir         = "/usr/share/zsh/site-functions"
	zshDirOfDebian = "/usr/share/zsh/vendor-completions"
	manDir         = "/usr/share/man"
)

// sharedFile is a file of a package beside the programs.
type sharedFile struct {
	Path     string
	Packager string // deb or rpm, or "" for both
	content  []byte
}

// sharedFiles are the documents, the pages for man and the completions of shells.
func sharedFiles(r *releasing) ([]sharedFile, error) {
	files, err := documentFiles()
	if err != nil {
		return nil, err
	}
	host, err := os.MkdirTemp("", "pqbridge-host-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(host)
	for _, program := range programs { // a release may be for other platforms alone
		if err := build(program, r.version, runtime.GOOS+"/"+runtime.GOARCH, filepath.Join(host, program)); err != nil {
			return nil, err
		}
	}
	for _, made := range []struct {
		path, packager, command string
		change                  func([]byte) []byte
	}{
		{bashDir + "/pq", "", "pq completion bash", slices.Clone[[]byte]},
		{fishDir + "/pq.fish", "", "pq completion fish", slices.Clone[[]byte]},
		{zshDirOfDebian + "/_pq", "deb", "pq completion zsh", slices.Clone[[]byte]},
		{zshDir + "/_pq", "rpm", "pq completion zsh", slices.Clone[[]byte]},
		{manDir + "/man1/pq.1.gz", "", "pq help --man", compress},
		{manDir + "/man8/pqd.8.gz", "", "pqd --help", func(help []byte) []byte { return compress(daemonManual(help)) }},
	} {
		command := strings.Fields(made.command)
		cmd := exec.Command(filepath.Join(host, command[0]), command[1:]...)
		cmd.Env = []string{"HOME=" + host}
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", made.command, err)
		}
		files = append(files, sharedFile{made.path, made.packager, made.change(out)})
	}
	return files, nil
}

func documentFiles() (files []sharedFile, err error) {
	for _, pattern := range documents {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s: found %d files (%v)", pattern, len(found), err)
		}
		for _, file := range found {
			content, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			files = append(files, sharedFile{Path: path.Join(documentsDir, filepath.ToSlash(file)), content: content})
		}
	}
	return files, nil
}

// writeShared writes the files below a directory, and returns where they are from there.
func writeShared(dir string, files []sharedFile) (contents []packaged, err error) {
	slices.SortFunc(files, func(a, b sharedFile) int { return strings.Compare(a.Path, b.Path) })
	for i, file := range files {
		source := filepath.Join(dir, fmt.Sprint("shared", i))
		if err := os.WriteFile(source, file.content, 0o644); err != nil {
			return nil, err
		}
		contents = append(contents, packaged{source, file})
	}
	return contents, nil
}

// packaged is a file that nfpm reads from Source.
type packaged struct {
	Source string
	sharedFile
}

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

// chartVersions are the lines of Chart.yaml that a release sets to its own version.
var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// writeChart packs the Helm chart, and returns its file.
func writeChart(r *releasing) (string, error) {
	const name = "pqbridge"
	packed, err := r.pack(os.DirFS(filepath.Join("deploy", "helm", name)), name, func(file string, content []byte) []byte {
		if file == "Chart.yaml" {
			return chartVersions.ReplaceAll(content, []byte("${1}: "+r.version))
		}
		return content
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(r.dir, fmt.Sprintf("%s_%s_helm.tgz", name, r.version)) // not -<version>.tgz: npm gives a client that name
	return file, os.WriteFile(file, packed, 0o644)
}

// setting is a line of the table in the help of pqd.
var setting = regexp.MustCompile(`^([A-Z][A-Z_0-9]+)  +(?:(\S+)  +)?(\S.*)$`)

// daemonManual is the help of pqd as a page for man: its table as a list.
func daemonManual(help []byte) []byte {
	before, table, _ := strings.Cut(string(help), "\nVARIABLE ")
	var page strings.Builder
	fmt.Fprintf(&page, ".TH PQD 8\n.nh\n.ad l\n.SH NAME\npqd \\- priority queues for NATS clients\n.SH DESCRIPTION\n.nf\n%s\n.fi\n.SH ENVIRONMENT\n", roff.Text(strings.TrimSpace(before)))
	for line := range strings.Lines(table) {
		if match := setting.FindStringSubmatch(strings.TrimSuffix(line, "\n")); match != nil {
			fmt.Fprintf(&page, ".TP\n.B %s\n%s", match[1], roff.Text(match[3]))
			if match[2] != "" {
				fmt.Fprintf(&page, " (default: %s)", roff.Text(match[2]))
			}
			page.WriteByte('\n')
		}
	}
	page.WriteString(".SH FILES\n.TP\n.B /etc/pqd.env\nsettings of the service, one VARIABLE=value a line\n.TP\n.B /var/lib/pqd\nits store\n.TP\n.B " + documentsDir +
		"\nthe documentation, and configurations, alerts and a dashboard to copy\n.SH SEE ALSO\n.BR pq (1);\n\"pq help operations\" and \"pq help runbook\" print these pages\n")
	return []byte(page.String())
}
