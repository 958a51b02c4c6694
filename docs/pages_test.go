// Package docs_test holds the documentation to what there is: links lead
// somewhere, tests and commands that are named exist, and every command is run by
// a test or says why it cannot be.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
)

const root = ".."

// page is a Markdown file, taken apart.
type page struct {
	path   string // from the root
	prose  []line // outside fences
	fences []fence
}

type line struct {
	number int
	text   string
}

type fence struct {
	number   int
	language string
	before   string // the line before it
	lines    []string
}

func (p page) at(number int) string { return fmt.Sprintf("%s:%d", p.path, number) }

func pages(t *testing.T) []page {
	t.Helper()
	var all []page
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "examples/*.md", "deploy/*.md", "clients/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			all = append(all, parse(t, file))
		}
	}
	if len(all) < 5 {
		t.Fatalf("found %d pages", len(all))
	}
	return all
}

func parse(t *testing.T, file string) page {
	t.Helper()
	path, err := filepath.Rel(root, file)
	if err != nil {
		t.Fatal(err)
	}
	p := page{path: filepath.ToSlash(path)}
	before, inside := "", false
	for i, text := range strings.Split(read(t, file), "\n") {
		tag, mark := strings.CutPrefix(text, "```")
		switch {
		case mark && inside:
			inside = false
		case mark:
			inside = true
			p.fences = append(p.fences, fence{number: i + 1, language: tag, before: before})
		case inside:
			last := &p.fences[len(p.fences)-1]
			last.lines = append(last.lines, text)
		default:
			p.prose = append(p.prose, line{i + 1, text})
		}
		if strings.TrimSpace(text) != "" {
			before = text
		}
	}
	if inside {
		t.Errorf("%s: a fence does not end", p.path)
	}
	return p
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors are what links to headings end with, as GitHub makes them.
func (p page) anchors() []string {
	var all []string
	for _, l := range p.prose {
		title, is := strings.CutPrefix(strings.TrimLeft(l.text, "#"), " ")
		if !is || !strings.HasPrefix(l.text, "#") {
			continue
		}
		title = dropped.ReplaceAllString(strings.ToLower(title), "")
		all = append(all, strings.ReplaceAll(strings.TrimSpace(title), " ", "-"))
	}
	return all
}

// dropped is what no anchor has.
var dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

var (
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code = regexp.MustCompile("`[^`]*`")
)

func TestLinks(t *testing.T) {
	all := pages(t)
	anchors := make(map[string][]string)
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	for _, p := range all {
		for _, l := range p.prose {
			for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(l.text, ""), -1) {
				target, anchor, _ := strings.Cut(match[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				path := p.path
				if target != "" {
					path = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), target))
				}
				if _, err := os.Stat(filepath.Join(root, path)); err != nil {
					t.Errorf("%s: the link to %s leads nowhere", p.at(l.number), match[1])
					continue
				}
				if anchor != "" && !slices.Contains(anchors[path], anchor) {
					t.Errorf("%s: %s has no heading #%s", p.at(l.number), path, anchor)
				}
			}
		}
	}
}

// marker stands before a block of commands that no terminal of a page runs.
var marker = regexp.MustCompile(`^<!-- (?:run by (Test\w+)|not run: .+) -->$`)

// protocol are the pages of the protocol and that of NATS clients: their examples in Go, JavaScript
// and Python are run, and so are those of natsClients in other languages. jsClient and pyClient are
// the pages of clients, whose examples TestJavaScriptClientPage and TestPythonClientPage run;
// TestCeleryPage and TestFastAPIPage run those of celery and fastAPI, and TestGoPage that of goPage.
var (
	protocol    = regexp.MustCompile(`^docs/(protocol(/\w+)?|clients)\.md$`)
	goPage      = "docs/go.md"
	natsClients = "docs/clients.md"
	jsClient    = "clients/js/README.md"
	pyClient    = "clients/python/README.md"
	celery      = "docs/celery.md"
	fastAPI     = "docs/fastapi.md"
)

// console blocks are run by the tests in e2e/clients, and so are the go and js blocks of
// the protocol. Other commands name the test that runs them, or say why none does.
func TestEveryCommandIsRun(t *testing.T) {
	tests := names(t, "_test.go", regexp.MustCompile(`(?m)^func (Test\w+)\(`))
	for _, p := range pages(t) {
		for _, f := range p.fences {
			switch f.language {
			case "console", "text", "yaml", "conf", "mermaid":
			case "go", "js":
				if !protocol.MatchString(p.path) && (p.path != jsClient || f.language != "js") && (p.path != goPage || f.language != "go") {
					t.Errorf("%s: only the protocol's examples in %s are run: put this one there, or into examples", p.at(f.number), f.language)
				}
			case "python":
				if p.path != pyClient && p.path != celery && p.path != fastAPI && !protocol.MatchString(p.path) {
					t.Errorf("%s: only the examples of the protocol, the Python client and Celery are run: put this one there, or into examples", p.at(f.number))
				}
			case "java", "rust", "c":
				if p.path != natsClients {
					t.Errorf("%s: only the examples in %s of %s are run: put this one there", p.at(f.number), f.language, natsClients)
				}
			case "sh":
				match := marker.FindStringSubmatch(f.before)
				if match == nil {
					t.Errorf("%s: commands that no test runs: make it a console block, or put <!-- run by Test… --> or <!-- not run: why --> before it", p.at(f.number))
				} else if match[1] != "" && !tests[match[1]] {
					t.Errorf("%s: there is no %s", p.at(f.number), match[1])
				}
			default:
				t.Errorf("%s: a block fenced as %q: expected console, sh, go, js, python, java, rust, c, text, yaml, conf or mermaid", p.at(f.number), f.language)
			}
			if f.language != "console" && slices.ContainsFunc(f.lines, func(l string) bool { return strings.HasPrefix(l, "$ ") }) {
				t.Errorf("%s: a session in a terminal that is not run: fence it as console", p.at(f.number))
			}
		}
		for i, l := range p.prose {
			if strings.HasPrefix(l.text, "    ") && i > 0 && p.prose[i-1].text == "" {
				t.Errorf("%s: fence this block, so that it says what it is", p.at(l.number))
			}
		}
	}
}

// isNotOurs reports whether a folder has what others wrote, or what was built.
func isNotOurs(path string) bool {
	name := filepath.Base(path)
	return slices.Contains([]string{"node_modules", "bin", "dist", "target"}, name) || path != root && strings.HasPrefix(name, ".")
}

// names are what a pattern finds in the files of the repository whose names end
// like this.
func names(t *testing.T, suffix string, pattern *regexp.Regexp) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isNotOurs(path) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, suffix) {
			return nil
		}
		for _, match := range pattern.FindAllStringSubmatch(read(t, path), -1) {
			found[match[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Fatalf("%s finds nothing in files named …%s", pattern, suffix)
	}
	return found
}

// Tests, targets of make, and commands of pq that a page speaks of exist.
func TestNamesExist(t *testing.T) {
	for _, kind := range []struct {
		what    string
		exist   map[string]bool
		mention *regexp.Regexp
	}{
		{"test", names(t, "_test.go", regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)), regexp.MustCompile(`\b((?:Test|Fuzz)[A-Z]\w+)`)},
		{"make target", names(t, "Makefile", regexp.MustCompile(`(?m)^([a-z-]+):`)), regexp.MustCompile("(?:`|^)make ([a-z-]+)")},
		{"campaign", names(t, "Makefile", regexp.MustCompile(`(?m)^campaign/([a-z]+):`)), regexp.MustCompile("make campaign NAME=([a-z]+)")},
		{"command of pqd", names(t, "main.go", regexp.MustCompile(`(?m)^       pqd ([a-z]+)`)), regexp.MustCompile("(?:`|[A-Z]=\\S+ )pqd ([a-z]+)")},
		{"command of pq", names(t, ".go", regexp.MustCompile(`(?m)^\s+Use:\s+"([a-z]+)[ "]`)), regexp.MustCompile("(?:`|^|\\| )pq ([a-z]+)")},
	} {
		for _, p := range pages(t) {
			lines := slices.Clone(p.prose)
			for _, f := range p.fences {
				if f.language == "sh" {
					for i, text := range f.lines {
						lines = append(lines, line{f.number + 1 + i, text})
					}
				}
			}
			for _, l := range lines {
				for _, match := range kind.mention.FindAllStringSubmatch(l.text, -1) {
					if !kind.exist[match[1]] {
						t.Errorf("%s: there is no %s %s", p.at(l.number), kind.what, match[1])
					}
				}
			}
		}
	}
}

// Files of the repository that a page names exist, by their path or by the end of it. What the
// changelog says of a file was true when it was written.
func TestFilesExist(t *testing.T) {
	exist := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isNotOurs(path) {
			return filepath.SkipDir
		}
		path = filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))
		for exist[path] = true; strings.Contains(path, "/"); exist[path] = true {
			_, path, _ = strings.Cut(path, "/")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, p := range pages(t) {
		if p.path == "CHANGELOG.md" {
			continue
		}
		for _, l := range p.prose {
			for _, match := range file.FindAllStringSubmatch(l.text, -1) {
				named++
				if !exist[match[1]] {
					t.Errorf("%s: there is no file %s", p.at(l.number), match[1])
				}
			}
		}
	}
	if named == 0 {
		t.Fatal("no page names a file")
	}
}

// file is a source file, or a path below a directory of the repository.
var file = regexp.MustCompile("`((?:[\\w-]+/)*[\\w-]+\\.(?:go|mjs|mod)|(?:bench|bridge|client|cmd|deploy|docs|examples|fdbpq|kv|protocol|subjects|testenv)(?:/[\\w.-]+)+)`")

// Each page says in its first sentence whom it is for, and docs/README.md has it below its readers in the same words.
func TestIndex(t *testing.T) {
	index := read(t, "README.md")
	sentence := regexp.MustCompile(`^# (.+)\n\nFor ([a-z ]+): (.+)\.\n`)
	listed, found := strings.Count(index, "\n- ["), 0
	for _, pattern := range []string{"*.md", "protocol/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if file == "README.md" {
				continue
			}
			found++
			match := sentence.FindStringSubmatch(read(t, file))
			if match == nil {
				t.Errorf("%s: expected its first sentence to be For <readers>: <what>.", file)
				continue
			}
			_, below, _ := strings.Cut(index, "\n## "+strings.ToUpper(match[2][:1])+match[2][1:]+"\n")
			below, _, _ = strings.Cut(below, "\n## ")
			if entry := fmt.Sprintf("\n- [%s](%s): %s\n", match[1], filepath.ToSlash(file), match[3]); !strings.Contains(below, entry) {
				t.Errorf("docs/README.md does not have this below those whom the page is for:%s", entry)
			}
		}
	}
	if found != listed || found == 0 {
		t.Errorf("docs/README.md lists %d pages, and there are %d", listed, found)
	}
}

// Each section of the proofs has the public thread of somebody whom it happened to, and a test: TestNamesExist finds it.
// Each defect in the last one has tests.
func TestProofs(t *testing.T) {
	thread, test := regexp.MustCompile(`\]\(https://\S+/\d+\)`), regexp.MustCompile(`(?m)^Tests: Test\w+(?:, Test\w+)*\.$`)
	sections := strings.Split(read(t, "proofs.md"), "\n## ")[1:]
	if len(sections) == 0 {
		t.Fatal("there are no proofs")
	}
	tested := regexp.MustCompile(`\| (?:Test|Fuzz)\w+(?:, Test\w+)* \|$`)
	sections, found := sections[:len(sections)-1], sections[len(sections)-1]
	defects := 0
	for _, row := range strings.Split(found, "\n") {
		if !strings.HasPrefix(row, "| ") || strings.Count(row, " | ") != 3 || strings.Contains(row, "---") || strings.HasSuffix(row, "| forbidden by |") {
			continue
		}
		if defects++; !tested.MatchString(row) {
			t.Errorf("docs/proofs.md: expected the names of tests at the end of %s", row)
		}
	}
	if !strings.Contains(found, fmt.Sprintf("\nOf %d defects, ", defects)) {
		t.Errorf("docs/proofs.md does not say that it lists %d defects", defects)
	}
	for _, section := range sections {
		title, text, _ := strings.Cut(section, "\n")
		if !thread.MatchString(text) || !test.MatchString(text) {
			t.Errorf("docs/proofs.md, %s: expected a link to a public thread, and the names of tests", title)
		}
	}
}

// The README's figures are those of the page on performance.
func TestFigures(t *testing.T) {
	var sentence string
	for _, l := range parse(t, filepath.Join(root, "README.md")).prose {
		if strings.Contains(l.text, "](docs/performance.md)") {
			sentence = l.text
		}
	}
	figures := regexp.MustCompile(`\b\d{1,3}(?:,\d{3})+\b`).FindAllString(sentence, -1)
	if len(figures) == 0 {
		t.Fatal("the README has no figures beside its link to the page on performance")
	}
	summary := read(t, filepath.Join(root, "docs/performance.md"))
	for _, figure := range figures {
		if !strings.Contains(summary, " "+figure+" ") {
			t.Errorf("the README says %s, and docs/performance.md has no such figure", figure)
		}
	}
}

// The versions that the page on compatibility names are those of the code.
func TestVersions(t *testing.T) {
	page := read(t, filepath.Join(root, "docs/compatibility.md"))
	if row := fmt.Sprintf("| the store format | %d |", fdbpq.FormatVersion); !strings.Contains(page, row) {
		t.Errorf("docs/compatibility.md does not say %s", row)
	}
	types := names(t, "push.go", regexp.MustCompile(`"io\.pq\.v(\d+)\.push_response"`))
	for version := range types {
		if row := fmt.Sprintf("| the wire protocol | %s |", version); !strings.Contains(page, row) {
			t.Errorf("docs/compatibility.md does not say %s", row)
		}
	}
}
