package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const repository = "https://github.com/pqbridge/pqbridge"

// pages are those of the site, which lie there as in the repository.
var pages = []string{"*.md", "docs/*.md", "docs/protocol/*.md", "clients/*/README.md", "examples/README.md"}

const index = "docs/README.md" // lists the pages below their readers

// writeSources writes what mdBook reads: the pages, the files that they link to, and the list of chapters.
func writeSources(src string) error {
	listed := make(map[string]bool)
	for _, pattern := range pages {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			return fmt.Errorf("%s: found %d pages (%v)", pattern, len(files), err)
		}
		for _, file := range files {
			listed[filepath.ToSlash(file)] = true
		}
	}
	for page := range listed {
		text, err := os.ReadFile(page)
		if err != nil {
			return err
		}
		changed, files := relink(page, string(text), listed)
		if err := write(src, chapter(page), []byte(changed)); err != nil {
			return err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := write(src, file, content); err != nil {
				return err
			}
		}
	}
	text, err := os.ReadFile(index)
	if err != nil {
		return err
	}
	return write(src, "SUMMARY.md", []byte(chapters(string(text))))
}

func write(dir, name string, content []byte) error {
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// chapter is where a page lies in the site: the one that stands for its folder has the name that servers look for.
func chapter(page string) string {
	if folder, is := strings.CutSuffix(page, "README.md"); is {
		return folder + "index.md"
	}
	return page
}

var target = regexp.MustCompile(`(\]\(|src="|srcset=")([^)"\s#]+)`)

// programs are files that are read in the repository.
var programs = map[string]bool{".go": true, ".mjs": true, ".py": true, ".sh": true}

// relink leads the links of a page to the pages and files of the site, and names those files. Links to folders and programs lead
// to the repository. Code is left alone.
func relink(page, text string, listed map[string]bool) (changed string, files []string) {
	inside := false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(strings.TrimLeft(line, " "), "```") {
			inside = !inside
		}
		if inside {
			continue
		}
		lines[i] = target.ReplaceAllStringFunc(line, func(link string) string {
			match := target.FindStringSubmatch(link)
			to := path.Join(path.Dir(page), match[2])
			info, err := os.Stat(to)
			switch {
			case strings.Contains(match[2], "://") || err != nil: // a mistake is found when the links are checked
			case listed[to]:
				return match[1] + strings.TrimSuffix(match[2], path.Base(to)) + path.Base(chapter(to))
			case info.IsDir():
				return match[1] + repository + "/tree/main/" + to
			case programs[path.Ext(to)]: // which would be a part of this module where the site lies
				return match[1] + repository + "/blob/main/" + to
			default:
				files = append(files, to)
			}
			return link
		})
	}
	return strings.Join(lines, "\n"), files
}

var entry = regexp.MustCompile(`\[([^\]]+)\]\(([^)\s]+\.md)\)`)

// chapters lists the pages in mdBook's form, below their readers, as the index has them.
func chapters(index string) string {
	var list strings.Builder
	list.WriteString("# Summary\n\n[pqbridge](index.md)\n[All pages](docs/index.md)\n")
	for line := range strings.Lines(index) {
		if strings.HasPrefix(line, "## ") {
			list.WriteString("\n# " + strings.TrimPrefix(line, "## ") + "\n")
		}
		for _, match := range entry.FindAllStringSubmatch(line, -1) {
			fmt.Fprintf(&list, "- [%s](%s)\n", match[1], chapter(path.Join("docs", match[2])))
		}
	}
	list.WriteString("- [Security](SECURITY.md)\n- [Changelog](CHANGELOG.md)\n")
	return list.String()
}
