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

// apiPackages are those whose exported names are a promise.
var apiPackages = []string{
	"bridge",
	"client",
	"fdbpq",
	"fdbpq/kv",
	"fdbpq/kv/cluster",
	"fdbpq/kv/local",
	"fdbpq/link",
	"fdbpq/recipe",
	"fdbpq/schedule",
	"fdbpq/source",
	"protocol",
	"subjects",
}

// unpromised are the public packages that are no promise, and why.
var unpromised = map[string]string{
	"docs":         "it has pages, not an API",
	"fdbpq/kv/fdb": "it compiles only beside FoundationDB's library",
	"testenv":      "tests may follow a release",
}

// What a release exported to programs in Go is there, and means the same to the compiler.
func TestGoAPIOfReleases(t *testing.T) {
	t.Parallel()
	now := exportedNames(t)
	for _, dir := range releases(t) {
		for file, text := range pqd.Files(t, filepath.Join(dir, apiDir)) {
			path := strings.TrimSuffix(filepath.ToSlash(file), ".txt")
			t.Run(filepath.Base(dir)+"/"+path, func(t *testing.T) {
				for line := range strings.Lines(string(text)) {
					if line = strings.TrimSuffix(line, "\n"); !now[path][line] {
						t.Errorf("the release has what this program lacks: %s\nBring it back. Only a release without a tag may be written again: make freeze VERSION=%s PART=api", line, filepath.Base(dir))
					}
				}
			})
		}
	}
}

// A release promises each package that other modules may import, or says why not.
func TestPublicPackagesArePromised(t *testing.T) {
	t.Parallel()
	cmd := pqd.Compiler(t, "go", "list", "-e", "-f", "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}", module+"...")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for line := range strings.Lines(string(out)) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, ours := strings.CutPrefix(path, module)
		if !ours || name == "main" || name == "" || slices.Contains(strings.Split(path, "/"), "internal") {
			continue
		}
		switch promised := slices.Contains(apiPackages, path); {
		case !promised && unpromised[path] == "":
			t.Errorf("%s is public: expected it in apiPackages, or a reason in unpromised", path)
		case promised:
			seen++
		}
	}
	if seen != len(apiPackages) {
		t.Errorf("%d of %d packages of apiPackages are public", seen, len(apiPackages))
	}
}

// writeAPI writes what the packages of this program export.
func writeAPI(t *testing.T, dir string) {
	t.Helper()
	now := exportedNames(t)
	if err := os.RemoveAll(filepath.Join(dir, apiDir)); err != nil {
		t.Fatal(err)
	}
	for path, lines := range now {
		write(t, filepath.Join(dir, apiDir, filepath.FromSlash(path)+".txt"), strings.Join(slices.Sorted(maps.Keys(lines)), "\n")+"\n")
	}
}

// exportedNames are lines, by package, that each say one thing of what it exports.
func exportedNames(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := make(map[string]map[string]bool)
	packages := typesOf(t)
	aliases := aliasesOf(packages)
	for path, p := range packages {
		a := api{pkg: p, aliases: aliases, lines: make(map[string]bool)}
		for _, name := range p.Scope().Names() {
			if token.IsExported(name) {
				a.object(p.Scope().Lookup(name))
			}
		}
		if len(a.lines) < 10 {
			t.Fatalf("%s exports %d things: expected more", path, len(a.lines))
		}
		all[path] = a.lines
	}
	return all
}

// aliasesOf are the names that packages export of types of internal packages: programs have no others for them.
func aliasesOf(packages map[string]*types.Package) map[*types.TypeName]*types.TypeName {
	aliases := make(map[*types.TypeName]*types.TypeName)
	for _, p := range packages {
		for _, name := range p.Scope().Names() {
			o, is := p.Scope().Lookup(name).(*types.TypeName)
			if !is || !o.IsAlias() || !o.Exported() {
				continue
			}
			if of, is := types.Unalias(o.Type()).(*types.Named); is && strings.Contains(of.Obj().Pkg().Path(), "/internal/") {
				aliases[of.Obj()] = o
			}
		}
	}
	return aliases
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
	pkg     *types.Package
	aliases map[*types.TypeName]*types.TypeName
	lines   map[string]bool
}

func (a *api) line(format string, args ...any) { a.lines[fmt.Sprintf(format, args...)] = true }

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
	return types.TypeString(a.nameless(t), func(p *types.Package) string {
		if p == a.pkg {
			return ""
		}
		return strings.TrimPrefix(p.Path(), module)
	})
}

// nameless returns a type whose functions have no names of parameters, and whose internal types have their exported names.
func (a *api) nameless(t types.Type) types.Type {
	switch t := t.(type) {
	case *types.Named:
		if alias := a.aliases[t.Obj()]; alias != nil {
			return types.NewNamed(types.NewTypeName(token.NoPos, alias.Pkg(), alias.Name(), nil), t.Underlying(), nil)
		}
		return t
	case *types.Signature:
		if t.TypeParams().Len() > 0 {
			return t
		}
		return types.NewSignatureType(nil, nil, nil, a.namelessTuple(t.Params()), a.namelessTuple(t.Results()), t.Variadic())
	case *types.Pointer:
		return types.NewPointer(a.nameless(t.Elem()))
	case *types.Slice:
		return types.NewSlice(a.nameless(t.Elem()))
	case *types.Map:
		return types.NewMap(a.nameless(t.Key()), a.nameless(t.Elem()))
	case *types.Chan:
		return types.NewChan(t.Dir(), a.nameless(t.Elem()))
	case *types.Interface:
		var methods []*types.Func
		for method := range t.Methods() { // of embedded interfaces, too
			methods = append(methods, types.NewFunc(token.NoPos, method.Pkg(), method.Name(), a.nameless(method.Signature()).(*types.Signature)))
		}
		if t.NumEmbeddeds() > 0 && !t.IsMethodSet() {
			return t // a constraint
		}
		return types.NewInterfaceType(methods, nil).Complete()
	default:
		return t
	}
}

func (a *api) namelessTuple(tuple *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range tuple.Variables() {
		vars = append(vars, types.NewParam(token.NoPos, v.Pkg(), "", a.nameless(v.Type())))
	}
	return types.NewTuple(vars...)
}
