package pqbridge_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/scanner"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// How large things may be that a reader has to have in mind at once. Folders and pages may be as large as they are, and so may files:
// a file is a type and its kin, and what is read together stands together.
const (
	minFile       = 40  // lines of a file that has no build tag, is not generated, and is more than the text of its package
	maxHeadings   = 7   // percent of all lines that are package clauses, imports and the blank lines around them
	maxUnexported = 30  // methods of a type: they share what it has, so none of them is understood alone
	maxExported   = 55  // methods of an exported type: who uses it looks for one among them
	maxFunction   = 80  // lines of a function
	maxLine       = 160 // characters of a line, what strings say aside
)

// largeTypes, wideTypes, longFunctions and longLines are larger, and may not grow. Make them smaller, and take them out: nothing new
// comes in.
var (
	largeTypes = map[string]int{
		"cmd/pq/internal/top.topModel": 38,
	}
	wideTypes = map[string]int{
		"fdbpq.Queue": 65,
	}
	longFunctions = map[string]int{}
	longLines     = map[string]int{} // by folder
)

// shortFiles are whole packages.
var shortFiles = map[string]bool{
	"docs/docs.go":                      true,
	"internal/reason/reason.go":         true,
	"internal/roff/roff.go":             true,
	"internal/storecheck/storecheck.go": true,
}

func TestFilesAreNoCrumbs(t *testing.T) {
	lines, headings := 0, 0
	for _, s := range sources(t) {
		if s.ofTests() || within(s.dir, "bench") || within(s.dir, "internal/generate") {
			continue
		}
		n := len(s.lines()) - 1
		lines += n
		headings += s.heading()
		name := path.Base(s.path)
		if n < minFile && name != "doc.go" && !strings.HasSuffix(name, "_gen.go") && !s.tagged() && !shortFiles[s.path] {
			t.Errorf("%s has %d lines: expected it in the file of the type that it belongs to", s.path, n)
		}
		if n >= minFile && shortFiles[s.path] {
			t.Errorf("%s has %d lines: expected no exception for it", s.path, n)
		}
	}
	if headings*100 > lines*maxHeadings {
		t.Errorf("%d of %d lines are headings: expected at most %d %%", headings, lines, maxHeadings)
	}
}

// heading counts the lines from the package clause to the first declaration.
func (s source) heading() int {
	end := s.file.Name.End()
	for _, declared := range s.file.Decls {
		if imports, is := declared.(*ast.GenDecl); is && imports.Tok == token.IMPORT {
			end = imports.End()
		}
	}
	last := s.line(end)
	for _, line := range s.lines()[last:] {
		if strings.TrimSpace(line) != "" {
			break
		}
		last++
	}
	return last - s.line(s.file.Package) + 1
}

// tagged reports whether only some builds have the file.
func (s source) tagged() bool {
	for line := range strings.Lines(s.text[:s.fset.Position(s.file.Package).Offset]) {
		if constraint.IsGoBuild(line) {
			return true
		}
	}
	name := strings.TrimSuffix(s.path, ".go")
	return slices.ContainsFunc([]string{"_linux", "_unix", "_windows", "_darwin"}, func(system string) bool { return strings.HasSuffix(name, system) })
}

func TestTypesAreSmall(t *testing.T) {
	unexported, exported := make(map[string]int), make(map[string]int)
	for _, s := range sources(t) {
		for _, f := range s.functions() {
			if s.test || f.Recv == nil {
				continue
			}
			switch of := receiver(f); {
			case !f.Name.IsExported():
				unexported[s.dir+"."+of]++
			case ast.IsExported(of):
				exported[s.dir+"."+of]++
			}
		}
	}
	bounded(t, "unexported methods", unexported, maxUnexported, largeTypes)
	bounded(t, "exported methods", exported, maxExported, wideTypes)
}

// Tests may be long: they are stories and tables. What is generated is read in its source.
func TestFunctionsAreShort(t *testing.T) {
	lines := make(map[string]int)
	for _, s := range sources(t) {
		for _, f := range s.functions() {
			name := f.Name.Name
			if f.Recv != nil {
				name = receiver(f) + "." + name
			}
			if n := s.line(f.End()) - s.line(f.Pos()) + 1; !s.ofTests() && !strings.HasSuffix(s.path, "_gen.go") {
				name = s.dir + "." + name
				lines[name] = max(lines[name], n) // several build tags may each have one
			}
		}
	}
	bounded(t, "lines", lines, maxFunction, longFunctions)
}

func TestLinesAreShort(t *testing.T) {
	counts, where := make(map[string]int), make(map[string][]string)
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_gen.go") {
			continue
		}
		inStrings := s.strings()
		for at, line := range s.lines() {
			if utf8.RuneCountInString(line)-inStrings[at+1] > maxLine {
				counts[s.dir]++
				where[s.dir] = append(where[s.dir], fmt.Sprintf("%s:%d", s.path, at+1))
			}
		}
	}
	for dir, count := range counts {
		if count > longLines[dir] {
			t.Errorf("%s has %d lines of more than %d characters: expected %d of %v", dir, count, maxLine, longLines[dir], where[dir])
		}
	}
}

// bounded checks that nothing has more than most, or than it is known to have.
func bounded(t *testing.T, what string, counts map[string]int, most int, known map[string]int) {
	t.Helper()
	for name, count := range counts {
		if count > max(most, known[name]) {
			t.Errorf("%s has %d %s: expected at most %d", name, count, what, max(most, known[name]))
		}
	}
	for name := range known {
		if counts[name] <= most {
			t.Errorf("%s has %d %s: expected no exception for it", name, counts[name], what)
		}
	}
}

func (s source) functions() (all []*ast.FuncDecl) {
	for _, declared := range s.file.Decls {
		if f, is := declared.(*ast.FuncDecl); is {
			all = append(all, f)
		}
	}
	return all
}

func (s source) line(at token.Pos) int { return s.fset.Position(at).Line }

func (s source) lines() []string { return strings.Split(s.text, "\n") }

// strings counts the characters of strings in each line.
func (s source) strings() map[int]int {
	counts := make(map[int]int)
	var tokens scanner.Scanner
	file := token.NewFileSet().AddFile(s.path, -1, len(s.text))
	tokens.Init(file, []byte(s.text), nil, 0)
	for {
		pos, kind, text := tokens.Scan()
		if kind == token.EOF {
			return counts
		}
		if kind != token.STRING {
			continue
		}
		at := file.Line(pos)
		for part := range strings.SplitSeq(text, "\n") {
			counts[at] += utf8.RuneCountInString(part)
			at++
		}
	}
}

// receiver is the type that a method belongs to.
func receiver(method *ast.FuncDecl) (name string) {
	ast.Inspect(method.Recv.List[0].Type, func(node ast.Node) bool {
		if id, is := node.(*ast.Ident); is && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
