package docs_test

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var draw = flag.Bool("draw", false, "write docs/terminal.svg from docs/terminal.txt")

// The README shows a picture of a terminal. terminal.txt is what a real session
// printed, and the tutorial, which a test runs, has the same commands with the
// same output. After a change record the session again and run
// make pictures. cmd/pq draws docs/top.svg.
func TestPicture(t *testing.T) {
	session := strings.Split(strings.TrimSuffix(read(t, "terminal.txt"), "\n"), "\n")
	var shown []string
	for _, f := range parse(t, filepath.Join(root, "docs", "tutorial.md")).fences {
		if f.language == "console" {
			shown = append(shown, f.lines...)
		}
	}
	next := 0
	for _, text := range session {
		for next < len(shown) && !matches(shown[next], text) {
			next++
		}
		if next == len(shown) {
			t.Fatalf("docs/terminal.txt shows %q, which docs/tutorial.md has nowhere behind the line before it: record the session again", text)
		}
		next++
	}
	const picture = "terminal.svg"
	drawn := drawTerminal(session)
	if *draw {
		if err := os.WriteFile(picture, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, picture) != drawn {
		t.Errorf("docs/%s is not the picture of docs/terminal.txt: run this test with -draw", picture)
	}
	if readme := read(t, filepath.Join(root, "README.md")); !strings.Contains(readme, "](docs/"+picture+")") {
		t.Errorf("the README does not show docs/%s", picture)
	}
}

var blanks = regexp.MustCompile(` {2,}`)

// matches reports whether a printed line is as a page shows it, where … stands for
// anything and the width of columns does not count.
func matches(shown, printed string) bool {
	parts := strings.Split(blanks.ReplaceAllString(shown, " "), "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(blanks.ReplaceAllString(printed, " "))
}

// drawTerminal returns an SVG of a terminal with these lines, commands brighter
// than what they print. Browsers make one space of several, unless they are no-break
// spaces.
func drawTerminal(lines []string) string {
	const fontSize, lineHeight, charWidth, margin, bar = 14, 20, 8.43, 20, 30
	longest := 0
	for _, text := range lines {
		longest = max(longest, len([]rune(text)))
	}
	width, height := int(float64(longest)*charWidth)+2*margin, len(lines)*lineHeight+2*margin+bar
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img">`+"\n", width, height)
	svg.WriteString("<title>a terminal in which pq pushes three items with priorities, lists them, and pops them from both ends</title>\n")
	fmt.Fprintf(&svg, `<rect width="%d" height="%d" rx="8" fill="#1e2127"/>`+"\n", width, height)
	for i, color := range []string{"#e06c75", "#e5c07b", "#98c379"} {
		fmt.Fprintf(&svg, `<circle cx="%d" cy="%d" r="6" fill="%s"/>`+"\n", margin+i*20, bar/2+4, color)
	}
	fmt.Fprintf(&svg, `<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="%d">`+"\n", fontSize)
	for i, text := range lines {
		color := "#abb2bf"
		if strings.HasPrefix(text, "$ ") {
			color = "#ffffff"
		}
		fmt.Fprintf(&svg, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", margin, bar+margin+i*lineHeight+fontSize, color, strings.ReplaceAll(html.EscapeString(text), " ", "\u00a0"))
	}
	svg.WriteString("</g>\n</svg>\n")
	return svg.String()
}

// image matches a picture in a page.
var image = regexp.MustCompile(`!\[([^\]]*)\]\(([^)]+)\)|<img src="([^"]+)" alt="([^"]*)">|<source media="[^"]*" srcset="([^"]+)">`)

// Pictures are small and say in words what they show. Each of the console, in both themes,
// is on a page.
func TestPictures(t *testing.T) {
	const most, least = 150 << 10, 20 // bytes of a picture, characters of its text
	shown := make(map[string]bool)
	for _, p := range pages(t) {
		for _, l := range p.prose {
			for _, match := range image.FindAllStringSubmatch(l.text, -1) {
				text, file := match[1]+match[4], match[2]+match[3]+match[5]
				path := filepath.Join(filepath.Dir(p.path), file)
				shown[path] = true
				info, err := os.Stat(filepath.Join(root, path))
				if err != nil || info.Size() > most {
					t.Errorf("%s: the picture %s: %v, expected up to %d bytes", p.at(l.number), file, err, most)
				}
				if match[5] == "" && len(text) < least {
					t.Errorf("%s: the picture %s is %q in words: expected what it shows", p.at(l.number), file, text)
				}
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "pictures", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		path, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		if !shown[path] {
			t.Errorf("no page shows %s", path)
		}
	}
}
