package manual

import (
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/pqbridge/pqbridge/docs"
	"github.com/pqbridge/pqbridge/internal/screen"
)

const suffix = ".md"

// Page is a page of the documentation.
type Page struct {
	Name string // without folder and suffix, such as runbook
	What string // what it is about, in the words of the list of pages
	file string
}

// Readers are those whom pages are for.
type Readers struct {
	Who   string
	Pages []Page
}

var (
	readers = regexp.MustCompile(`^## (.+)$`)
	entry   = regexp.MustCompile(`^- \[[^\]]+\]\(([\w/]+\.md)\): (.+)$`)
)

// List returns the pages below their readers, as README.md has them.
func List() (all []Readers) {
	for line := range strings.Lines(text("README" + suffix)) {
		line = strings.TrimSuffix(line, "\n")
		if match := readers.FindStringSubmatch(line); match != nil {
			all = append(all, Readers{Who: match[1]})
		} else if match := entry.FindStringSubmatch(line); match != nil {
			last := &all[len(all)-1]
			last.Pages = append(last.Pages, Page{Name: strings.TrimSuffix(path.Base(match[1]), suffix), What: plain(match[2]), file: match[1]})
		}
	}
	return all
}

// Index is the list of the pages for a terminal of so many columns.
func Index(columns int) string {
	longest := 0
	for _, r := range List() {
		for _, p := range r.Pages {
			longest = max(longest, len(p.Name))
		}
	}
	var index strings.Builder
	for i, r := range List() {
		if i > 0 {
			index.WriteByte('\n')
		}
		index.WriteString(r.Who + ":\n")
		for _, p := range r.Pages {
			first := "  " + screen.Pad(p.Name, longest+gap, false)
			index.WriteString(strings.Join(wrap(p.What, columns, first, strings.Repeat(" ", len(first))), "\n") + "\n")
		}
	}
	return index.String()
}

// Find returns the page of a name, with or without its folder and suffix.
func Find(name string) (Page, bool) {
	name = strings.TrimSuffix(name, suffix)
	for _, r := range List() {
		for _, p := range r.Pages {
			if name == p.Name || name == strings.TrimSuffix(p.file, suffix) {
				return p, true
			}
		}
	}
	return Page{}, false
}

// Text is the page for a terminal of so many columns.
func (p Page) Text(columns int) string { return render(p.file, text(p.file), columns) }

// text is that of a file that is built in.
func text(file string) string {
	content, err := fs.ReadFile(docs.Pages, file)
	if err != nil {
		panic(err) // it was there when the program was built
	}
	return string(content)
}
