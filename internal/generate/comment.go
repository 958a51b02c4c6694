package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// comments are the comments of a package's types and of their fields.
type comments map[string]comment // by the name of the type, or of the type, a dot, and the field

type comment struct {
	text   string // in front of the type or field, or behind a field without a comment in front
	behind string // behind the field
}

func readComments(folder string) (comments, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	all := make(comments)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declared := range f.Decls {
			if d, is := declared.(*ast.GenDecl); is && d.Tok == token.TYPE {
				all.add(d)
			}
		}
	}
	return all, nil
}

func (all comments) add(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		t := spec.(*ast.TypeSpec)
		text := t.Doc.Text()
		if text == "" {
			text = d.Doc.Text()
		}
		all[t.Name.Name] = comment{text: text}
		s, is := t.Type.(*ast.StructType)
		if !is {
			continue
		}
		for _, f := range s.Fields.List {
			c := comment{text: f.Doc.Text(), behind: strings.TrimSpace(f.Comment.Text())}
			if c.text == "" {
				c.text = f.Comment.Text()
			}
			for _, name := range f.Names {
				all[t.Name.Name+"."+name.Name] = c
			}
		}
	}
}

var (
	goLink   = regexp.MustCompile(`\[(\w+(?:\.\w+)*)\]`)
	pageLink = regexp.MustCompile(`\[([^]]+)\]\([^)]*\)`)
)

// paragraphs are the paragraphs of a text, each in one line.
func paragraphs(text string) (all []string) {
	for p := range strings.SplitSeq(text, "\n\n") {
		if p = strings.Join(strings.Fields(p), " "); p != "" {
			all = append(all, p)
		}
	}
	return all
}

// first is the first paragraph of a text.
func first(text string) string {
	for _, p := range paragraphs(text) {
		return p
	}
	return ""
}

// plain is a text without the marks of pages and comments.
func plain(text string) string {
	text = pageLink.ReplaceAllString(text, "$1")
	return strings.ReplaceAll(goLink.ReplaceAllString(text, "$1"), "`", "")
}

// asPart is a sentence as a part of a line: it begins with a small letter, and has no period.
func asPart(sentence string) string {
	sentence = strings.TrimSuffix(sentence, ".")
	if sentence == "" {
		return ""
	}
	return strings.ToLower(sentence[:1]) + sentence[1:]
}
