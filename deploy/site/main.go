// Site makes the documentation a site for browsers, with search, by mdBook: the pages as they are in the
// repository, the README first, and what they link to. Then it checks that each link of the site leads
// somewhere, and that each table scrolls on a narrow screen; it asks no other site.
//
//	go run ./deploy/site -mdbook mdbook -o dist/site
package main

import (
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

func main() {
	mdbook := flag.String("mdbook", "mdbook", "the program mdBook")
	dir := flag.String("o", "dist/site", "directory for the site; what it has is removed")
	flag.Parse()
	if err := makeSite(*mdbook, *dir); err != nil {
		log.Fatal("site: ", err)
	}
}

func makeSite(mdbook, dir string) error {
	site, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	book, err := os.MkdirTemp("", "pqbridge-site-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(book)
	if err := writeSources(filepath.Join(book, "src")); err != nil {
		return err
	}
	for name, content := range map[string]string{"book.toml": bookConfig, "site.css": css} {
		if err := os.WriteFile(filepath.Join(book, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	cmd := exec.Command(mdbook, "build", "--dest-dir", site, book)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s build: %w", mdbook, err)
	}
	return check(site)
}

//go:embed site.css
var css string

const bookConfig = `[book]
title = "pqbridge"
description = "Durable priority queues on NATS"
language = "en"

[output.html]
no-section-label = true
additional-css = ["site.css"]
git-repository-url = "` + repository + `"

[output.html.playground]
runnable = false
`
