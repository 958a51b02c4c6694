package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every page has a chapter, and every link of the sources leads to one of them, to a file beside them, or to another site.
func TestSources(t *testing.T) {
	t.Chdir("../..")
	src := t.TempDir()
	if err := writeSources(src); err != nil {
		t.Fatal(err)
	}
	summary, err := os.ReadFile(filepath.Join(src, "SUMMARY.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]bool)
	for _, match := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(summary), -1) {
		if listed[match[1]] {
			t.Errorf("%s has two chapters", match[1])
		}
		listed[match[1]] = true
	}
	link := regexp.MustCompile(`\]\(([^)\s#]+)`)
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```|`[^`\n]*`")
	err = fs.WalkDir(os.DirFS(src), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".md" || name == "SUMMARY.md" {
			return err
		}
		if !listed[name] {
			t.Errorf("%s has no chapter", name)
		}
		text, err := os.ReadFile(filepath.Join(src, name))
		if err != nil {
			return err
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(src, path.Dir(name), match[1])); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", name, match[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !listed["index.md"] || !listed["docs/runbook.md"] || !listed["docs/protocol/push.md"] || !listed["clients/python/index.md"] {
		t.Errorf("the chapters are\n%s", summary)
	}
}

func TestCheck(t *testing.T) {
	write := func(t *testing.T, pages map[string]string) string {
		dir := t.TempDir()
		for name, text := range pages {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	sound := map[string]string{
		"index.html":   `<h1 id="top">x</h1><div class="table-wrapper"><table></table></div><a href="a/b.html#c">1</a><a href="#top">2</a><img src="p.svg"><a href="https://example.org/nowhere">3</a>`,
		"a/b.html":     `<h2 id="c">x</h2><a href="../index.html">1</a><a href="./">2</a>`,
		"a/index.html": ``,
		"p.svg":        ``,
	}
	if err := check(write(t, sound)); err != nil {
		t.Errorf("a sound site: %v", err)
	}
	wide := map[string]string{"index.html": `<div><table></table></div><div class="table-wrapper"><table></table></div>`}
	if err := check(write(t, wide)); err == nil || !strings.Contains(err.Error(), "index.html: 1 tables do not scroll") {
		t.Errorf("a table that does not scroll: %v", err)
	}
	if err := check(t.TempDir()); err == nil {
		t.Error("a site without pages is sound")
	}
	for _, link := range []string{"nowhere.html", "index.html#nowhere", "#nowhere", "a/nowhere.svg", "../p.svg"} {
		sound["c.html"] = `<a href="` + link + `">x</a>`
		if err := check(write(t, sound)); err == nil || !strings.Contains(err.Error(), "c.html: the link to "+link+" leads nowhere") {
			t.Errorf("%s: %v", link, err)
		}
	}
}
