// Package pqbridge_test holds the repository to its own rules: who may import
// what, which types lie in several files, how large types, functions, lines and files are, how tests wait,
// what lies at the top.
// They are tests so that breaking one is noticed the same day, and changing one is a decision.
package pqbridge_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pqbridge/pqbridge"

// layer is a part of the tower: packages, and the layers that they may import of this module, their tests aside. Go itself
// forbids circles of packages, so within a layer that has its own name in on, packages may import each other.
type layer struct {
	name string
	of   []string // packages, and with /... all below a folder; the longest that fits says the layer
	on   []string // names of layers
	why  string
}

// layers are cmd → bridge → fdbpq → kv, and never back. A package that is in none of them has no place yet: think about
// it, then add it.
var layers = []layer{
	{"tools", []string{"internal/...", "deploy/...", "docs"}, []string{"tools"},
		"a tool knows nothing of queues"},
	{"wire", []string{"protocol", "subjects"}, nil,
		"clients of all kinds share the wire, which knows nothing but itself"},
	{"seam", []string{"fdbpq/kv"}, nil,
		"the contract of a store knows neither stores nor queues"},
	{"engines", []string{"fdbpq/kv/...", "internal/jetstream"}, []string{"engines", "seam", "tools"},
		"engines know keys, never items"},
	{"core", []string{"fdbpq/..."}, []string{"core", "seam", "tools"},
		"the core uses engines through the seam, and knows no network"},
	{"service", []string{"bridge/...", "internal/storecheck"}, []string{"service", "core", "seam", "wire", "tools"},
		"the service opens no store, and is no client"},
	{"clients", []string{"client", "internal/gateway", "internal/generate", "cmd/pq/...", "examples/worker", "examples/llm/...", "bench"}, []string{"clients", "wire", "tools"},
		"a client has the wire alone: no store, and nothing of the bridge"},
	{"daemon", []string{"cmd/pqd/...", "examples/outbox"}, []string{"daemon", "clients", "service", "core", "engines", "seam", "wire", "tools"},
		"a program joins all that is not for tests"},
	{"tests", []string{"testenv", "e2e/internal/...", "internal/testkit/..."},
		[]string{"tests", "clients", "service", "core", "engines", "seam", "wire", "tools"},
		"tests may use what tests use, and programs they start"},
}

// layerOf is the layer of a package, nil if it has none.
func layerOf(dir string) (found *layer) {
	longest := 0
	for at := range layers {
		for _, pattern := range layers[at].of {
			folder, below := strings.CutSuffix(pattern, "/...")
			if (dir == folder || below && within(dir, folder)) && len(folder) > longest {
				found, longest = &layers[at], len(folder)
			}
		}
	}
	return found
}

// wrongArrow says why a package of this module may not import another one; "": it may.
func wrongArrow(from, to string) string {
	upper, lower := layerOf(from), layerOf(to)
	switch {
	case upper == nil:
		return from + " is in no layer: expected it in one"
	case lower == nil:
		return to + " is in no layer: expected it in one"
	case !slices.Contains(upper.on, lower.name):
		return fmt.Sprintf("%s (%s) imports %s (%s): expected imports of %v alone, because %s", from, upper.name, to, lower.name, upper.on, upper.why)
	}
	return ""
}

// public are the packages that other modules may import, each with what they need it for. What a
// program outside has no use for is internal.
var public = map[string]string{
	"client":           "a program speaks to queues through NATS",
	"protocol":         "a client in other terms needs the headers, words and bodies",
	"subjects":         "a program makes the subjects and permissions of a prefix",
	"fdbpq":            "a program changes queues in its own transactions",
	"fdbpq/link":       "a program gives the items of a queue to another store",
	"fdbpq/schedule":   "a program has queues push items at times",
	"fdbpq/source":     "a program has queues take messages of streams",
	"fdbpq/recipe":     "a program pops in the ways of FoundationDB's recipe",
	"fdbpq/kv":         "a transaction is one of the seam, and an engine implements it",
	"fdbpq/kv/local":   "a program opens an embedded store",
	"fdbpq/kv/fdb":     "a program opens a store on FoundationDB",
	"fdbpq/kv/cluster": "a program opens a replicated store",
	"bridge":           "a program serves queues on its own NATS connection",
	"docs":             "a program shows the pages without a network",
	"testenv":          "the tests of a program start NATS servers, stores and daemons",
}

// outside says who may import what of others, their tests aside. What is not
// listed may be imported by anybody.
var outside = []struct {
	path string   // a package or everything below it
	by   []string // packages of this module
	why  string
}{
	{"github.com/nats-io/nats-server/v2", []string{"cmd/pqd/internal/broker", "cmd/pqd/internal/egress", "cmd/pqd/internal/election", "e2e/internal/pqd", "internal/interest", "testenv", "bench"}, "a client must not carry a server"},
	{"github.com/nats-io/nats.go", []string{"bridge", "bridge/internal/codec", "bridge/internal/events", "bridge/internal/links", "bridge/internal/listening", "bridge/internal/peers", "bridge/internal/pops", "bridge/internal/pushes", "bridge/internal/reads", "bridge/internal/receiver", "bridge/internal/request", "bridge/internal/results", "bridge/internal/settles", "bridge/internal/sources", "internal/jetstream", "client", "internal/gateway", "cmd/pqd", "cmd/pqd/internal/broker", "cmd/pqd/internal/link", "cmd/pqd/internal/node", "cmd/pqd/internal/web", "cmd/pq", "cmd/pq/internal/doctor", "cmd/pq/internal/foreign", "cmd/pq/internal/session", "cmd/pq/internal/top", "e2e/internal/cases", "e2e/internal/pqd", "testenv", "bench", "examples/worker", "examples/llm/gateway"}, "the core knows no network"},
	{"github.com/gomodule/redigo", []string{"cmd/pq/internal/foreign"}, "it is for jobs that come from Redis"},
	{"github.com/cockroachdb/pebble/v2", []string{"fdbpq/kv/local", "fdbpq/kv/local/internal/durable", "fdbpq/kv/local/internal/logs"}, "engines are used through the seam"},
	{"github.com/hanwen/go-fuse/v2", []string{"internal/testkit/disk"}, "it is for one file system of tests"},
	{"github.com/apple/foundationdb/bindings/go", []string{"fdbpq/kv/fdb", "examples/outbox"}, "engines are used through the seam"},
	{"github.com/kelseyhightower/envconfig", []string{"cmd/pqd", "cmd/pqd/internal/settings", "cmd/pq"}, "packages take options, programs read the environment"},
	{"github.com/google/jsonschema-go", []string{"internal/generate"}, "programs and clients have what is generated"},
	{"github.com/spf13/cobra", []string{"cmd/pq", "cmd/pq/internal/doctor", "cmd/pq/internal/session", "cmd/pq/internal/top"}, "one program has commands"},
	{"go.opentelemetry.io/otel/sdk", []string{"cmd/pqd"}, "packages take a tracer, the program makes it"},
	{"go.opentelemetry.io/otel/exporters", []string{"cmd/pqd"}, "packages take a tracer, the program makes it"},
	{"testing", []string{"testenv", "internal/testkit/disk", "internal/testkit/expense", "internal/testkit/nightly", "internal/testkit/fdbtest", "internal/testkit/kvtest", "internal/testkit/clustertest", "e2e/internal/cases", "e2e/internal/chromium", "e2e/internal/clock", "e2e/internal/nodejs", "e2e/internal/overlay", "e2e/internal/pqd", "e2e/internal/slowdisk"}, "production code is not test code"},
}

// scattered are the types of a package that have methods in more than one file, by how many there may be. A reader who looks for a
// method looks in the file of its type. A change may lower a bound; nothing new comes in.
var scattered = map[string]int{
	"bridge":                    2,
	"bridge/internal/codec":     5,
	"bridge/internal/peers":     1,
	"bridge/internal/pops":      1, // a transaction has two files
	"bridge/internal/receiver":  1,
	"bridge/internal/request":   2,
	"bridge/internal/sources":   2,
	"bridge/internal/tenants":   1,
	"bridge/internal/waiting":   1,
	"client":                    7,
	"cmd/pq":                    2,
	"cmd/pq/internal/doctor":    1,
	"cmd/pq/internal/session":   1,
	"cmd/pq/internal/top":       2,
	"cmd/pqd/internal/settings": 1,
	"fdbpq":                     2,
	"fdbpq/internal/layout":     2,
	"fdbpq/kv/local":            6,
	"fdbpq/recipe":              1,
	"internal/gateway":          4,
}

// housed are the folders whose types are looked at.
var housed = []string{"bridge", "client", "cmd", "fdbpq", "internal/gateway"}

// maxBridgeMethods bounds what the bridge as a whole can do. Its parts know each other
// by narrow constructors, and none of them knows the bridge.
const maxBridgeMethods = 8

// changingItems are the types of fdbpq that embed a queueTx, through which items change, queues are made, and events are
// reported. All others, keys above all, have queueRows. Nothing new comes in.
var changingItems = []string{
	"bulkPage", "deadLetters", "expiries", "garbage", "holds", "leases", "popIDs", "pops", "pusher", "retries", "withdrawals",
}

// topLevel is everything that may lie in the repository's root.
var topLevel = []string{
	".ci", ".dockerignore", ".git-blame-ignore-revs", ".github", ".gitignore",
	"CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile", "README.md", "SECURITY.md",
	"bench", "bridge", "client", "clients", "cmd", "deploy", "docker-compose.yml", "docs", "e2e", "examples", "fdbpq",
	"go.mod", "go.sum", "internal", "layout_maps_test.go", "layout_sizes_test.go", "layout_test.go", "layout_waits_test.go", "protocol", "subjects", "testenv",
}

// source is one Go file of the repository.
type source struct {
	path string // from the root
	dir  string
	test bool
	text string
	fset *token.FileSet
	file *ast.File
}

// sources are all Go files, those of other build tags included.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."), entry.IsDir() && slices.Contains([]string{"testdata", "bin", "dist"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		all = append(all, source{
			path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			text: string(text), fset: fset, file: file,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("found no Go files: is the test running in the repository's root?")
	}
	return all
}

func (s source) imports(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, spec := range s.file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: %v", s.path, err)
		}
		paths = append(paths, name)
	}
	return paths
}

// ofTests says whether only tests use a file.
func (s source) ofTests() bool {
	return s.test || s.dir == "testenv" || within(s.dir, "e2e") || within(s.dir, "internal/testkit")
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		if layerOf(s.dir) == nil {
			t.Errorf("%s: the package %s is in no layer: expected it in one", s.path, s.dir)
		}
		for _, imported := range s.imports(t) {
			if ours, is := strings.CutPrefix(imported, module+"/"); is {
				if wrong := wrongArrow(s.dir, ours); wrong != "" {
					t.Errorf("%s: %s", s.path, wrong)
				}
			}
			for _, rule := range outside {
				if within(imported, rule.path) && !slices.Contains(rule.by, s.dir) {
					t.Errorf("%s imports %s: only %v may, because %s", s.path, imported, rule.by, rule.why)
				}
			}
		}
	}
}

// The arrows that the layers are for.
func TestLayers(t *testing.T) {
	for arrow, allowed := range map[string]bool{
		"fdbpq/kv/cluster > fdbpq/kv/local": true,
		"fdbpq/link > fdbpq":                true,
		"bridge > fdbpq/source":             true,
		"cmd/pqd > fdbpq/kv/fdb":            true,
		"cmd/pqd > internal/gateway":        true,
		"cmd/pq/internal/top > client":      true,
		"testenv > bridge":                  true,

		"bridge > fdbpq/kv/local":                  false,
		"bridge/internal/codec > fdbpq/kv/local":   false,
		"bridge > client":                          false,
		"bridge > cmd/pqd/internal/settings":       false,
		"bridge > internal/gateway":                false,
		"bridge > internal/testkit/fault":          false,
		"fdbpq > bridge":                           false,
		"fdbpq > fdbpq/kv/local":                   false,
		"fdbpq > protocol":                         false,
		"fdbpq/source > subjects":                  false,
		"fdbpq/internal/layout > bridge":           false,
		"fdbpq/kv > fdbpq/kv/local":                false,
		"fdbpq/kv > internal/tuple":                false,
		"fdbpq/kv/local > fdbpq":                   false,
		"fdbpq/kv/local > fdbpq/internal/layout":   false,
		"fdbpq/kv/cluster > protocol":              false,
		"internal/jetstream > fdbpq":               false,
		"client > bridge":                          false,
		"client > fdbpq":                           false,
		"client > fdbpq/kv":                        false,
		"client > testenv":                         false,
		"internal/gateway > bridge/internal/codec": false,
		"internal/gateway > fdbpq":                 false,
		"cmd/pq > fdbpq":                           false,
		"cmd/pq > cmd/pqd/internal/settings":       false,
		"cmd/pqd > testenv":                        false,
		"cmd/pqd > e2e/internal/pqd":               false,
		"protocol > subjects":                      false,
		"subjects > internal/jsontext":             false,
		"internal/lanes > client":                  false,
		"internal/tuple > fdbpq":                   false,
		"internal/natsurl > protocol":              false,
		"internal/jsontext > fdbpq/kv":             false,
		"docs > cmd/pq/internal/manual":            false,
		"deploy/site > bridge":                     false,
		"examples/worker > fdbpq":                  false,
		"cmd/other > client":                       false,
		"client > other":                           false,
	} {
		from, to, _ := strings.Cut(arrow, " > ")
		if wrong := wrongArrow(from, to); (wrong == "") != allowed {
			t.Errorf("%s: %q: expected it allowed: %v", arrow, wrong, allowed)
		}
	}
}

// Each pattern of the layers is of a package.
func TestLayersAreFull(t *testing.T) {
	all := sources(t)
	for _, l := range layers {
		for _, pattern := range l.of {
			folder, below := strings.CutSuffix(pattern, "/...")
			if !slices.ContainsFunc(all, func(s source) bool { return s.dir == folder || below && within(s.dir, folder) }) {
				t.Errorf("the layer %s has %s, where no Go files are", l.name, pattern)
			}
		}
	}
}

// A package that anybody may import is a promise, so each one is a decision.
func TestPublicPackagesAreFew(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" || slices.Contains(strings.Split(s.dir, "/"), "internal") {
			continue
		}
		if !seen[s.dir] && public[s.dir] == "" {
			t.Errorf("%s is public: expected it below an internal folder, or a reason in public", s.dir)
		}
		seen[s.dir] = true
	}
	for dir := range public {
		if !seen[dir] {
			t.Errorf("%s is listed as public and is not", dir)
		}
	}
}

func TestNothingHoldsTheBridge(t *testing.T) {
	methods := 0
	for _, s := range sources(t) {
		if s.test || s.dir != "bridge" {
			continue
		}
		for _, declared := range s.file.Decls {
			switch d := declared.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil && names(d.Recv.List[0].Type, "Bridge") {
					methods++
				} else if names(d.Type.Params, "Bridge") {
					t.Errorf("%s: %s takes a *Bridge: expected the parts that it needs", s.path, d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if spec, is := spec.(*ast.TypeSpec); is && names(spec.Type, "Bridge") {
						t.Errorf("%s: type %s holds a *Bridge: expected the parts that it needs", s.path, spec.Name)
					}
				}
			}
		}
	}
	if methods == 0 || methods > maxBridgeMethods {
		t.Errorf("Bridge has %d methods: expected 1 to %d", methods, maxBridgeMethods)
	}
}

// names says whether a part of a file names an identifier.
func names(in ast.Node, identifier string) (found bool) {
	ast.Inspect(in, func(node ast.Node) bool {
		id, is := node.(*ast.Ident)
		found = found || is && id.Name == identifier
		return !found
	})
	return found
}

func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}

// A file is a type and its kin. What is generated belongs to the file that it is named after.
func TestTypesStandInOneFile(t *testing.T) {
	files := make(map[string]map[string]bool)
	for _, s := range sources(t) {
		if s.ofTests() || s.tagged() || !slices.ContainsFunc(housed, func(folder string) bool { return within(s.dir, folder) }) {
			continue
		}
		name := strings.Replace(s.path, "_gen.go", ".go", 1)
		for _, f := range s.functions() {
			if f.Recv == nil {
				continue
			}
			of := s.dir + "." + receiver(f)
			if files[of] == nil {
				files[of] = make(map[string]bool)
			}
			files[of][name] = true
		}
	}
	counts, which := make(map[string]int), make(map[string][]string)
	for of, in := range files {
		if len(in) > 1 {
			dir := of[:strings.LastIndexByte(of, '.')]
			counts[dir]++
			which[dir] = append(which[dir], fmt.Sprintf("%s has methods in %v", of, slices.Sorted(maps.Keys(in))))
		}
	}
	for dir := range scattered {
		counts[dir] += 0
	}
	for dir, n := range counts {
		if n != scattered[dir] {
			t.Errorf("%s has %d types with methods in more than one file: expected %d of %q", dir, n, scattered[dir], which[dir])
		}
	}
}

// A program and its parts are one house: who knows the name of a file there knows the file.
func TestFileNamesStandOnce(t *testing.T) {
	seen := make(map[string]string)
	for _, s := range sources(t) {
		name := path.Base(s.path)
		if !within(s.dir, "cmd/pqd") || name == "doc.go" {
			continue
		}
		if first := seen[name]; first != "" {
			t.Errorf("%s and %s have one name: expected the name of what each holds", first, s.path)
		}
		seen[name] = s.path
	}
	if len(seen) == 0 {
		t.Error("found no file of cmd/pqd")
	}
}

// Who reads what keys do, or limits, need not look for changes of items there.
func TestFewTypesChangeItems(t *testing.T) {
	embedding := make(map[string]bool)
	for _, s := range sources(t) {
		if s.test || s.dir != "fdbpq" {
			continue
		}
		ast.Inspect(s.file, func(node ast.Node) bool {
			spec, is := node.(*ast.TypeSpec)
			if !is {
				return true
			}
			if fields, is := spec.Type.(*ast.StructType); is {
				for _, field := range fields.Fields.List {
					embedding[spec.Name.Name] = embedding[spec.Name.Name] || len(field.Names) == 0 && names(field.Type, "queueTx")
				}
			}
			return true
		})
	}
	if !embedding["pops"] {
		t.Error("pops embeds no queueTx: expected it to, or another name in this test")
	}
	for name, is := range embedding {
		if is && !slices.Contains(changingItems, name) {
			t.Errorf("fdbpq.%s embeds a queueTx: expected queueRows, for only %v change items", name, changingItems)
		}
	}
}

// An item that leaves its queue leaves by end: what happens at each end of an item stands there, and misses none.
func TestItemsEndInOnePlace(t *testing.T) {
	allowed := map[string][]string{
		"nowhere":   {"enter", "finished", "writeItem", "clearItem"}, // clearItem: of a generation that has ended
		"writeItem": {"enter", "change", "finished"},
	}
	used := make(map[string]int)
	for _, s := range sources(t) {
		if s.test || s.dir != "fdbpq" {
			continue
		}
		for _, decl := range s.file.Decls {
			fn, is := decl.(*ast.FuncDecl)
			if !is {
				continue
			}
			ast.Inspect(fn.Body, func(node ast.Node) bool {
				id, is := node.(*ast.Ident)
				if !is || allowed[id.Name] == nil {
					return true
				}
				used[id.Name]++
				if !slices.Contains(allowed[id.Name], fn.Name.Name) {
					t.Errorf("%s: %s uses %s: expected %v alone to; an item ends by queueTx.end", s.path, fn.Name.Name, id.Name, allowed[id.Name])
				}
				return true
			})
		}
	}
	if used["nowhere"] != 4 || used["writeItem"] != 3 {
		t.Errorf("found %v: expected four uses of nowhere, three of writeItem, or other names in this test", used)
	}
}

func TestTopLevelIsComplete(t *testing.T) {
	if _, err := os.Stat(".git"); err != nil {
		t.Skip("not a git checkout: what else lies around here is somebody's own business")
	}
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	seen := make(map[string]bool)
	for file := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		top, _, _ := strings.Cut(file, "/")
		if !seen[top] && !slices.Contains(topLevel, top) {
			t.Errorf("%s lies at the top level: expected one of %v", top, topLevel)
		}
		seen[top] = true
	}
}
