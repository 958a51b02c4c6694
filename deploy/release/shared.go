package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// documents are the files of the repository that packages have, in folders as here, so that the links between them lead
// somewhere: the pages, and the configurations, alerts, dashboard and examples that they name.
var documents = []string{
	"*.md", "docs/*.md", "docs/*.svg", "docs/pictures/*", "docs/protocol/*.md", "clients/*/README.md",
	"deploy/*.conf", "deploy/compose-cluster.yml", "deploy/*.yaml", "deploy/pqd.service", "deploy/helm/pqbridge/files/*",
	"docker-compose.yml", "examples/*.md", "examples/*/*",
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
