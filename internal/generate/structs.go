package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// goStruct is a struct of one of our packages, as its source has it: the package need not compile.
type goStruct struct {
	folder, name string
	fields       []goField
}

// goField is a field of a struct.
type goField struct {
	name, kind string
	embedded   bool
}

// goStructs are all structs of packages, by folder, a dot, and the name.
type goStructs map[string]*goStruct

// readStructs reads the structs of some folders.
func readStructs(root string, folders ...string) (goStructs, error) {
	all, aliases := make(goStructs), make(map[string]string)
	for _, folder := range folders {
		err := eachFile(filepath.Join(root, folder), func(f *ast.File) error {
			for _, declared := range f.Decls {
				d, is := declared.(*ast.GenDecl)
				if !is || d.Tok != token.TYPE {
					continue
				}
				for _, spec := range d.Specs {
					t := spec.(*ast.TypeSpec)
					name := folder + "." + t.Name.Name
					switch of := t.Type.(type) {
					case *ast.StructType:
						all[name] = &goStruct{folder, t.Name.Name, fieldsOf(of)}
					case *ast.SelectorExpr:
						aliases[name] = gotypes.ExprString(of)
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for name, of := range aliases {
		if all[of] != nil {
			all[name] = all[of]
		}
	}
	return all, nil
}

// eachFile calls f with the files of a package.
func eachFile(folder string, f func(*ast.File) error) error {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if err := f(parsed); err != nil {
			return err
		}
	}
	return nil
}

func fieldsOf(s *ast.StructType) (all []goField) {
	for _, f := range s.Fields.List {
		kind := gotypes.ExprString(f.Type)
		for _, name := range f.Names {
			all = append(all, goField{name: name.Name, kind: kind})
		}
		if f.Names == nil {
			all = append(all, goField{name: kind[strings.LastIndexAny(kind, ".*")+1:], kind: kind, embedded: true})
		}
	}
	return all
}

// get returns a struct.
func (all goStructs) get(name string) (*goStruct, error) {
	if s := all[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("found no struct %s", name)
}

// field finds a field of a struct, or of one that it embeds.
func (all goStructs) field(s *goStruct, name string) (goField, bool) {
	if at := slices.IndexFunc(s.fields, func(f goField) bool { return f.name == name && !f.embedded }); at >= 0 {
		return s.fields[at], true
	}
	for _, f := range s.fields {
		if inner := all[s.folder+"."+f.name]; f.embedded && inner != nil {
			if found, is := all.field(inner, name); is {
				return found, true
			}
		}
	}
	return goField{}, false
}

// headerNames are the names of the constants of headers in package protocol, by their values.
func headerNames(root string) (map[string]string, error) {
	names := make(map[string]string)
	err := eachFile(filepath.Join(root, "protocol"), func(f *ast.File) error {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Header") {
				return true
			}
			if literal, is := spec.Values[0].(*ast.BasicLit); is && literal.Kind == token.STRING {
				if value, err := strconv.Unquote(literal.Value); err == nil { // the parser has read it
					names[value] = spec.Names[0].Name
				}
			}
			return true
		})
		return nil
	})
	return names, err
}
