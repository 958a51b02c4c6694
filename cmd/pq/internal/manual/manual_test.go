package manual

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/docs"
	"github.com/pqbridge/pqbridge/internal/screen"
)

const columns = 80

func TestRender(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"headings":       {"# The title\n\n## A `part`\n\n#### deep\n", "THE TITLE\n\nA part\n------\n\n--- deep\n"},
		"a paragraph":    {"one two\nthree **four *five* six** *seven*\n", "one two three four\nfive six seven\n"},
		"a long word":    {"a 1234567890123456789012345 b", "a\n1234567890123456789012345\nb\n"},
		"code holds":     {"one two three fo `pq ls`", "one two three fo\npq ls\n"},
		"stars in code":  {"`pq.*.event.*` and `*`", "pq.*.event.* and *\n"},
		"a list":         {"- one two three four five\n- six\n\n1. seven\n", "- one two three four\n  five\n- six\n\n1. seven\n"},
		"within an item": {"1. one\n\n   two\n\n   ```sh\n   pq ls\n   ```\n", "1. one\n\n   two\n\n       pq ls\n"},
		"a block":        {"before\n```sh\nan untouched line that is long\n\n  x\n```\nbehind", "before\n\n    an untouched line that is long\n\n      x\n\nbehind\n"},
		"comments":       {"a\n\n<!-- no\nno -->\n\n<!-- no -->\nb\n", "a\n\nb\n"},
		"a picture":      {"<picture>\n<source srcset=\"x\">\n<img alt=\"a cat\" src=\"y\">\n</picture>\n\n![a dog](z.svg)", "[Picture: a cat]\n\n[Picture: a dog]\n"},
		"details":        {"<details><summary>Go</summary>\n\n```go\nx\n```\n\n</details>\nb", "Go:\n\n    x\n\nb\n"},
		"footnotes":      {"yes[^1]\n\n[^1]: but", "yes[1]\n\n[1] but\n"},
		"links":          {"[x](https://a.b/c) [y](runbook.md#z) [Tutorial](tutorial.md) [here](#the-end) [z](../client)\n\n## The end", "x <https://a.b/c> y\n(runbook.md)\nTutorial here (see\n\"The end\") z\n\nThe end\n-------\n"},
		"a small table":  {"| a | n |\n| --- | ---: |\n| b | 1 |\n| c \\| d | 23 |\n", "a       n\n-----  --\nb       1\nc | d  23\n"},
		"a wide table":   {"| a | b |\n| --- | --- |\n| one | two three four five |\n| six | seven |\n", "a    b\n---  ---------------\none  two three four\n     five\n\nsix  seven\n"},
		"no room for a table": {"| head | second | third |\n| --- | --- | --- |\n| first | 1234567890 | `a-b-c-d` |\n| next | | e |\n",
			"head: first\n  second: 1234567890\n  third: a-b-c-d\n\nhead: next\n  third: e\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := render("page.md", c.page, 20); got != c.want {
				t.Errorf("found\n%s\nexpected\n%s", got, c.want)
			}
		})
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{"push", "push.md", "protocol/push", "protocol/push.md"} {
		if p, found := Find(name); !found || !strings.HasPrefix(p.Text(columns), "PUSH\n") {
			t.Errorf("%s: found %v", name, p)
		}
	}
	if p, found := Find("README"); found {
		t.Errorf("found %v", p)
	}
}

var (
	fences   = regexp.MustCompile("(?ms)^ *```\\w*\n(.*?)^ *```$")
	comments = regexp.MustCompile(`(?s)<!--.*?-->`)
	targets  = regexp.MustCompile(`\]\([^)\s]*\)|<[^>\n]*>|^\|[-:| ]+\|$`)
	words    = regexp.MustCompile(`[\p{L}\d]+`)
	marks    = regexp.MustCompile(`\]\(|\*\*|<!--|</?(?:details|summary|picture)|\| -|` + "`")
)

// Each page is shown whole: all of its words, and its blocks of code as they stand. No line is longer than the terminal
// unless it is code or one word, and no marks are left.
func TestPages(t *testing.T) {
	shown := 0
	for _, r := range List() {
		for _, p := range r.Pages {
			shown++
			source, text := comments.ReplaceAllString(text(p.file), ""), p.Text(columns)
			for _, block := range fences.FindAllStringSubmatch(source, -1) {
				for line := range strings.Lines(block[1]) {
					if strings.TrimSpace(line) != "" && !strings.Contains(text, "    "+strings.TrimRight(line, "\n ")+"\n") {
						t.Errorf("%s: the line %q is missing", p.file, line)
					}
				}
			}
			counts := make(map[string]int)
			for _, word := range words.FindAllString(strings.ToLower(text), -1) {
				counts[word]++
			}
			for line := range strings.Lines(fences.ReplaceAllString(source, "")) {
				for _, word := range words.FindAllString(strings.ToLower(targets.ReplaceAllString(strings.TrimSpace(line), "]")), -1) {
					if counts[word]--; counts[word] < 0 && !strings.Contains(line, "`<") {
						t.Errorf("%s: %q of %q is missing", p.file, word, line)
					}
				}
			}
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				switch {
				case strings.HasPrefix(line, "    "):
				case screen.Width(line) > columns && strings.Contains(strings.TrimLeft(line, "-: "), " "):
					t.Errorf("%s: a line of %d columns: %s", p.file, screen.Width(line), line)
				case marks.MatchString(line):
					t.Errorf("%s: marks are left: %s", p.file, line)
				}
			}
		}
	}
	files := 0
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := fs.Glob(docs.Pages, pattern)
		if err != nil {
			t.Fatal(err)
		}
		files += len(found)
	}
	if shown != files-1 { // README.md is their list
		t.Errorf("%d of %d pages are listed", shown, files-1)
	}
}

// The name of a page is enough to find it.
func TestNames(t *testing.T) {
	seen := make(map[string]string)
	for _, r := range List() {
		for _, p := range r.Pages {
			if other := seen[p.Name]; other != "" {
				t.Errorf("%s and %s have one name", other, p.file)
			}
			seen[p.Name] = p.file
			if p.What == "" || path.Base(p.file) != p.Name+suffix {
				t.Errorf("found %+v", p)
			}
		}
	}
}
