package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// document is what a page of the site offers and wants.
type document struct {
	ids   map[string]bool
	links []string
	wide  int // tables that a narrow screen cuts off
}

// check reports each link within a site that leads nowhere, to a file or to a place in one, and pages with a table that does not
// scroll. The page for printing, which has all others in itself, is left out.
func check(dir string) error {
	site := os.DirFS(dir)
	documents := make(map[string]document)
	files := make(map[string]bool)
	err := fs.WalkDir(site, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name] = true
		if path.Ext(name) != ".html" || path.Base(name) == "print.html" || path.Base(name) == "404.html" || path.Base(name) == "toc.html" {
			return nil
		}
		file, err := site.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		root, err := html.Parse(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		documents[name] = read(root)
		return nil
	})
	if err != nil {
		return err
	}
	if len(documents) == 0 {
		return fmt.Errorf("%s has no pages", dir)
	}
	var broken []error
	for name, d := range documents {
		if d.wide > 0 {
			broken = append(broken, fmt.Errorf("%s: %d tables do not scroll: expected each in an element of the class table-wrapper", name, d.wide))
		}
		for _, link := range d.links {
			u, err := url.Parse(link)
			if err != nil {
				broken = append(broken, fmt.Errorf("%s: %w", name, err))
				continue
			}
			if u.Scheme != "" || u.Host != "" {
				continue
			}
			to := name
			if u.Path != "" {
				to = path.Join(path.Dir(name), u.Path)
			}
			if strings.HasSuffix(u.Path, "/") || to == "." {
				to = path.Join(to, "index.html")
			}
			if other, is := documents[to]; !files[to] || is && u.Fragment != "" && !other.ids[u.Fragment] {
				broken = append(broken, fmt.Errorf("%s: the link to %s leads nowhere", name, link))
			}
		}
	}
	return errors.Join(broken...)
}

// read collects the places and links of a page.
func read(root *html.Node) document {
	d := document{ids: make(map[string]bool)}
	for node := range root.Descendants() {
		if node.Data == "table" && !slices.Contains(node.Parent.Attr, html.Attribute{Key: "class", Val: "table-wrapper"}) {
			d.wide++
		}
		for _, a := range node.Attr {
			switch a.Key {
			case "id", "name":
				d.ids[a.Val] = true
			case "href", "src", "srcset":
				d.links = append(d.links, a.Val)
			}
		}
	}
	return d
}
