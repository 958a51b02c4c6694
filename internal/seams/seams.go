// Package seams counts how the files of a Go package need each other. A package whose files need each other in
// both directions cannot be taken apart, however small its files are. It counts the types whose methods lie in
// several files, too: a file that is free of the others by that is no easier to find.
package seams

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Package has the counts of one package, its tests aside. A file uses another one where it names a function, a
// method, a type, a variable or a constant that is declared there; fields do not count.
type Package struct {
	Path     string
	Files    int
	Lines    int
	Exported int        // names that other packages can use, methods included
	Mutual   [][]string // pairs of files that use each other
	Upward   [][]string // uses of a later file by an earlier one, in the best order found
	Circle   int        // files of the largest set in which each uses all others, if only by way of others
	Order    []string   // that order: each file after those that it uses

	Scattered [][]string // types whose methods lie in several files: the name, and these files
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly                 bool
	Error                   *struct{ Err string }
}

// Count counts the packages that match, with the build tags of this machine. It needs the go command.
func Count(patterns ...string) ([]Package, error) {
	list := exec.Command("go", append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,DepOnly,Error"}, patterns...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	exports := make(map[string]string)
	var wanted []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := decoder.Decode(&l); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		exports[l.ImportPath] = l.Export
		if l.DepOnly {
			continue
		}
		if l.Error != nil {
			return nil, fmt.Errorf("go list: %s", l.Error.Err)
		}
		wanted = append(wanted, l)
	}
	var all []Package
	for _, l := range wanted {
		p, err := count(l, exports)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", l.ImportPath, err)
		}
		all = append(all, p)
	}
	return all, nil
}

func count(l listed, exports map[string]string) (p Package, err error) {
	p = Package{Path: l.ImportPath, Files: len(l.GoFiles)}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range l.GoFiles {
		text, err := os.ReadFile(filepath.Join(l.Dir, name))
		if err != nil {
			return p, err
		}
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return p, err
		}
		p.Lines += bytes.Count(text, []byte("\n"))
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not built", path)
		}
		return os.Open(exports[path])
	}
	info := types.Info{Uses: make(map[*ast.Ident]types.Object)}
	checker := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	checked, err := checker.Check(l.ImportPath, fset, files, &info)
	if err != nil {
		return p, err
	}
	p.Exported = exported(checked)
	uses := make(uses)
	for name, object := range info.Uses {
		if object.Pkg() != checked || !declared(object, checked.Scope()) {
			continue
		}
		from, to := partOf(fset.Position(name.Pos()).Filename, l.GoFiles), partOf(fset.Position(object.Pos()).Filename, l.GoFiles)
		if from != to {
			uses.add(from, to)
		}
	}
	p.Mutual = uses.mutual()
	parts := slices.DeleteFunc(slices.Clone(l.GoFiles), func(name string) bool { return partOf(name, l.GoFiles) != name })
	for _, circle := range uses.circles(parts) {
		p.Circle = max(p.Circle, len(circle))
	}
	p.Order = uses.order(parts)
	p.Upward = uses.upward(p.Order)
	p.Scattered = scattered(checked, fset, l.GoFiles)
	return p, nil
}

// partOf is the file to which a file belongs: a generated file is a part of the one that it is named after.
func partOf(file string, all []string) string {
	if of, is := strings.CutSuffix(file, "_gen.go"); is && slices.Contains(all, of+".go") {
		return of + ".go"
	}
	return file
}

// scattered are the types with methods in more than one file, which a reader cannot find by the name of a file.
func scattered(p *types.Package, fset *token.FileSet, of []string) (all [][]string) {
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		named, is := object.Type().(*types.Named)
		if !is || isAlias(object) {
			continue
		}
		files := make(map[string]bool)
		for method := range named.Methods() {
			files[partOf(fset.Position(method.Pos()).Filename, of)] = true
		}
		if len(files) > 1 {
			all = append(all, append([]string{name}, slices.Sorted(maps.Keys(files))...))
		}
	}
	return all
}

// declared reports whether an object is declared at the top of a file.
func declared(object types.Object, scope *types.Scope) bool {
	switch o := object.(type) {
	case *types.Func: // of methods of interfaces, the type is meant
		return o.Signature().Recv() == nil || !types.IsInterface(o.Signature().Recv().Type())
	case *types.TypeName, *types.Var, *types.Const:
		return o.Parent() == scope
	}
	return false
}

func exported(p *types.Package) (n int) {
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		n++
		if named, is := object.Type().(*types.Named); is && !isAlias(object) {
			for method := range named.Methods() {
				if method.Exported() {
					n++
				}
			}
		}
	}
	return n
}

func isAlias(object types.Object) bool {
	name, is := object.(*types.TypeName)
	return !is || name.IsAlias()
}

// uses has the files that each file uses.
type uses map[string]map[string]bool

func (u uses) add(from, to string) {
	if u[from] == nil {
		u[from] = make(map[string]bool)
	}
	u[from][to] = true
}

func (u uses) mutual() (pairs [][]string) {
	for from, others := range u {
		for to := range others {
			if from < to && u[to][from] {
				pairs = append(pairs, []string{from, to})
			}
		}
	}
	slices.SortFunc(pairs, slices.Compare[[]string])
	return pairs
}

// circles are the strongly connected sets of the files, each behind those that it uses.
func (u uses) circles(files []string) (circles [][]string) {
	reach := make(map[string]map[string]bool)
	for _, file := range files {
		seen := map[string]bool{}
		next := []string{file}
		for len(next) > 0 {
			at := next[len(next)-1]
			next = next[:len(next)-1]
			for to := range u[at] {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		seen[file] = true
		reach[file] = seen
	}
	// A file reaches more than each file that it uses, but for those of its circle.
	sorted := slices.Sorted(slices.Values(files))
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(len(reach[a]), len(reach[b])) })
	placed := make(map[string]bool)
	for _, file := range sorted {
		if placed[file] {
			continue
		}
		var circle []string
		for _, other := range sorted {
			if reach[file][other] && reach[other][file] {
				circle, placed[other] = append(circle, other), true
			}
		}
		circles = append(circles, circle)
	}
	return circles
}

// order looks for the order with the fewest uses upwards. Files that use each other, if only by way of others, are a
// circle, and no use between circles has to point upwards: each circle follows those that it uses. The same files have
// the same order each time.
func (u uses) order(files []string) (order []string) {
	for _, circle := range u.circles(files) {
		order = append(order, u.within(circle)...)
	}
	return order
}

// within looks for the order of a circle: it begins with what is used most and uses least, and moves single files
// while that helps.
func (u uses) within(files []string) []string {
	weight := func(file string) (n int) {
		for _, other := range files {
			if u[file][other] {
				n++
			}
			if u[other][file] {
				n--
			}
		}
		return n
	}
	order := slices.Sorted(slices.Values(files))
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(weight(a), weight(b)) })
	for moved := true; moved; {
		moved = false
		for _, file := range slices.Clone(order) {
			at := slices.Index(order, file)
			best, gain := at, 0
			for _, step := range []int{-1, 1} {
				sum := 0
				for to := at + step; to >= 0 && to < len(order); to += step {
					// Passing the other one, file's use of it is upwards where it was not, and the other way round.
					passes := order[to]
					if u[file][passes] {
						sum += step
					}
					if u[passes][file] {
						sum -= step
					}
					if sum > gain {
						best, gain = to, sum
					}
				}
			}
			if best != at {
				order = slices.Insert(slices.Delete(order, at, at+1), best, file)
				moved = true
			}
		}
	}
	return order
}

// upward are the uses of a later file.
func (u uses) upward(order []string) (pairs [][]string) {
	for at, file := range order {
		for _, later := range order[at+1:] {
			if u[file][later] {
				pairs = append(pairs, []string{file, later})
			}
		}
	}
	return pairs
}

// Table writes counts as a table, and the scattered types below it.
func Table(all []Package) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-60s %5s %6s %8s %6s %6s %6s %9s\n", "package", "files", "lines", "exported", "mutual", "upward", "circle", "scattered")
	for _, p := range all {
		fmt.Fprintf(&b, "%-60s %5d %6d %8d %6d %6d %6d %9d\n", p.Path, p.Files, p.Lines, p.Exported, len(p.Mutual), len(p.Upward), p.Circle, len(p.Scattered))
	}
	for _, p := range all {
		for _, s := range p.Scattered {
			fmt.Fprintf(&b, "%s.%s has methods in %d files: %s\n", p.Path, s[0], len(s)-1, strings.Join(s[1:], " "))
		}
	}
	return b.String()
}
