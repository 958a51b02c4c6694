package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// reasonSource has the reasons of errors as the Go client names them, in the groups of package protocol.
func reasonSource(root string) (string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "protocol", "status.go"), nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "package client\n\nimport %q\n", module+"protocol")
	for _, declared := range f.Decls {
		d, is := declared.(*ast.GenDecl)
		if !is || d.Tok != token.CONST {
			continue
		}
		var group strings.Builder
		for _, spec := range d.Specs {
			if err := writeReason(&group, spec.(*ast.ValueSpec)); err != nil {
				return "", err
			}
		}
		if group.Len() > 0 {
			fmt.Fprintf(&b, "\n// %s\nconst (\n%s)\n", strings.TrimSpace(d.Doc.Text()), group.String())
		}
	}
	return b.String(), nil
}

// writeReason writes the constant of a reason that clients get, and nothing for another constant.
func writeReason(b *strings.Builder, spec *ast.ValueSpec) error {
	if kind, is := spec.Type.(*ast.Ident); !is || kind.Name != "Reason" {
		return nil
	}
	name := spec.Names[0].Name
	value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(protocol.Refusals, func(r protocol.Refusal) bool { return string(r.Reason) == value })
	switch {
	case at < 0:
		return fmt.Errorf("protocol/refusals.go lacks a row for %s: the codes that have this reason", name)
	case protocol.Refusals[at].BetweenStores:
		return nil
	}
	fmt.Fprintf(b, "%s = protocol.%s", name, name)
	if said := strings.TrimSpace(spec.Comment.Text()); said != "" {
		fmt.Fprintf(b, " // %s", said)
	}
	b.WriteString("\n")
	return nil
}
