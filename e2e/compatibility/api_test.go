package compatibility_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/constant"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
)

const module = "github.com/pqbridge/pqbridge/"

// apiPackages are those whose exported names are a promise. fdbpq/kv/fdb cannot be compiled
// everywhere, and testenv is for tests, which may follow a release.
var apiPackages = []string{"client", "protocol", "subjects", "bridge", "fdbpq", "fdbpq/recipe", "fdbpq/kv", "fdbpq/kv/local", "fdbpq/kv/cluster"}

// What a release exported to programs in Go is there, and means the same to the compiler.
func TestGoAPIOfReleases(t *testing.T) {
	t.Parallel()
	now := exportedNames(t)
	for _, dir := range releases(t) {
		for line := range strings.Lines(pqd.Read(t, filepath.Join(dir, apiFile))) {
			if line = strings.TrimSuffix(line, "\n"); !now[line] {
				t.Errorf("release %s has what this program lacks: %s\nBring it back. Only a release without a tag may be written again: make freeze", filepath.Base(dir), line)
			}
		}
	}
}

func apiText(names map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(names)), "\n") + "\n"
}

// exportedNames are lines that each say one thing of what the packages export.
func exportedNames(t *testing.T) map[string]bool {
	t.Helper()
	lines := make(map[string]bool)
	for path, p := range typesOf(t) {
		a := api{pkg: p, prefix: "package " + path + ": ", lines: lines}
		for _, name := range p.Scope().Names() {
			if token.IsExported(name) {
				a.object(p.Scope().Lookup(name))
			}
		}
	}
	if len(lines) < 500 {
		t.Fatalf("the packages export %d things: expected more", len(lines))
	}
	return lines
}

// typesOf reads what the compiler knows of the packages.
func typesOf(t *testing.T) map[string]*types.Package {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, path := range apiPackages {
		args = append(args, module+path)
	}
	cmd := pqd.Compiler(t, "go", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := make(map[string]string)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct{ ImportPath, Export string }
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	compiled := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(files[path])
	})
	packages := make(map[string]*types.Package)
	for _, path := range apiPackages {
		if packages[path], err = compiled.Import(module + path); err != nil {
			t.Fatal(err)
		}
	}
	return packages
}

// api writes lines about one package.
type api struct {
	pkg    *types.Package
	prefix string
	lines  map[string]bool
}

func (a *api) line(format string, args ...any) { a.lines[a.prefix+fmt.Sprintf(format, args...)] = true }

func (a *api) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		if o.Val().Kind() == constant.String { // a word of the wire
			a.line("const %s %s = %s", o.Name(), a.text(o.Type()), o.Val().ExactString())
		} else { // a limit may grow
			a.line("const %s %s", o.Name(), a.text(o.Type()))
		}
	case *types.Var:
		a.line("var %s %s", o.Name(), a.text(o.Type()))
	case *types.Func:
		a.line("func %s%s", o.Name(), strings.TrimPrefix(a.text(o.Type()), "func"))
	case *types.TypeName:
		a.typeName(o)
	}
}

// typeName writes what a program can do with a type: its kind, its exported fields and its methods,
// promoted ones included. An interface that others may implement is one line, since a further method
// breaks what implements it.
func (a *api) typeName(o *types.TypeName) {
	t := types.Unalias(o.Type())
	under := t.Underlying()
	switch under := under.(type) {
	case *types.Struct:
		a.line("type %s struct", o.Name())
		for field := range under.Fields() {
			if field.Exported() {
				a.line("type %s struct, %s %s", o.Name(), field.Name(), a.text(field.Type()))
			}
		}
	case *types.Interface:
		a.line("type %s %s", o.Name(), a.text(under))
		return
	default:
		a.line("type %s %s", o.Name(), a.text(under))
	}
	methods := types.NewMethodSet(types.NewPointer(t))
	for selection := range methods.Methods() {
		if method := selection.Obj(); method.Exported() {
			receiver := o.Name()
			if types.NewMethodSet(t).Lookup(nil, method.Name()) == nil {
				receiver = "*" + receiver
			}
			a.line("method (%s) %s%s", receiver, method.Name(), strings.TrimPrefix(a.text(selection.Type()), "func"))
		}
	}
}

// text is a type without the names of parameters, which programs do not see.
func (a *api) text(t types.Type) string {
	return types.TypeString(nameless(t), func(p *types.Package) string {
		if p == a.pkg {
			return ""
		}
		return strings.TrimPrefix(p.Path(), module)
	})
}

// nameless returns a type whose functions have no names of parameters.
func nameless(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Signature:
		if t.TypeParams().Len() > 0 {
			return t
		}
		return types.NewSignatureType(nil, nil, nil, namelessTuple(t.Params()), namelessTuple(t.Results()), t.Variadic())
	case *types.Pointer:
		return types.NewPointer(nameless(t.Elem()))
	case *types.Slice:
		return types.NewSlice(nameless(t.Elem()))
	case *types.Map:
		return types.NewMap(nameless(t.Key()), nameless(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), nameless(t.Elem()))
	case *types.Interface:
		var methods []*types.Func
		for method := range t.Methods() { // of embedded interfaces, too
			methods = append(methods, types.NewFunc(token.NoPos, method.Pkg(), method.Name(), nameless(method.Signature()).(*types.Signature)))
		}
		if t.NumEmbeddeds() > 0 && !t.IsMethodSet() {
			return t // a constraint
		}
		return types.NewInterfaceType(methods, nil).Complete()
	default:
		return t
	}
}

func namelessTuple(tuple *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range tuple.Variables() {
		vars = append(vars, types.NewParam(token.NoPos, v.Pkg(), "", nameless(v.Type())))
	}
	return types.NewTuple(vars...)
}
