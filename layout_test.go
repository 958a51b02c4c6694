// Package pqbridge_test holds the repository to its own rules: who may import
// what, how much files need each other, which types lie in several of them, how large types, functions and lines are, how tests wait,
// what lies at the top.
// They are tests so that breaking one is noticed the same day, and changing one is a decision.
package pqbridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/seams"
)

const module = "github.com/pqbridge/pqbridge"

// imports says what each package may import of this module, its tests aside:
// cmd → bridge → fdbpq → kv, and never back. Engines know keys, never items;
// the subject grammar and the protocol know nobody; a client knows these two, and what all clients share. A package
// that is missing here has no place yet: think about it, then add it.
var imports = map[string][]string{
	"subjects":         {},
	"protocol":         {},
	"fdbpq/kv":         {},
	"fdbpq/kv/local":   {"fdbpq/kv"},
	"fdbpq/kv/fdb":     {"fdbpq/kv"},
	"fdbpq/kv/cluster": {"fdbpq/kv", "fdbpq/kv/local"},
	"fdbpq":            {"fdbpq/internal/damage", "fdbpq/internal/inside", "fdbpq/internal/jsonfields", "fdbpq/internal/layout", "fdbpq/internal/session", "fdbpq/internal/storetime", "fdbpq/kv", "internal/reason", "internal/tuple"},
	"fdbpq/link":       {"fdbpq", "fdbpq/internal/inside", "fdbpq/internal/jsonfields", "fdbpq/internal/layout", "fdbpq/internal/named", "fdbpq/kv", "internal/tuple"},
	"fdbpq/schedule":   {"fdbpq", "fdbpq/internal/damage", "fdbpq/internal/inside", "fdbpq/internal/jsonfields", "fdbpq/internal/layout", "fdbpq/internal/named", "fdbpq/internal/rota", "fdbpq/internal/storetime", "fdbpq/kv", "internal/calendar", "internal/tuple"},
	"fdbpq/source":     {"fdbpq", "fdbpq/internal/inside", "fdbpq/internal/jsonfields", "fdbpq/internal/layout", "fdbpq/internal/named", "fdbpq/kv", "internal/reason", "internal/tuple"},
	"bridge":           {"bridge/internal/batch", "bridge/internal/codec", "bridge/internal/explain", "bridge/internal/failure", "bridge/internal/listening", "bridge/internal/meter", "bridge/internal/peers", "bridge/internal/receiver", "bridge/internal/request", "bridge/internal/reserve", "bridge/internal/sources", "bridge/internal/survey", "bridge/internal/tenants", "bridge/internal/waiting", "fdbpq", "fdbpq/kv", "fdbpq/link", "fdbpq/schedule", "fdbpq/source", "internal/natsurl", "protocol", "subjects"},
	"client":           {"internal/lanes", "protocol", "subjects"},
	"docs":             {},
	"testenv":          {"bridge", "fdbpq", "fdbpq/kv", "fdbpq/kv/local", "fdbpq/kv/fdb", "internal/fdbtest", "internal/history", "internal/interest", "internal/patience", "internal/storecheck", "subjects"},

	"bridge/internal/batch":      {},
	"bridge/internal/codec":      {"bridge/internal/failure", "fdbpq", "fdbpq/link", "fdbpq/schedule", "fdbpq/source", "internal/jsontext", "protocol", "subjects"},
	"bridge/internal/explain":    {"bridge/internal/failure", "fdbpq", "protocol"},
	"bridge/internal/failure":    {"fdbpq", "fdbpq/kv", "fdbpq/link", "fdbpq/schedule", "fdbpq/source", "protocol", "subjects"},
	"bridge/internal/listening":  {"fdbpq", "protocol"},
	"bridge/internal/meter":      {"fdbpq/kv"},
	"bridge/internal/peers":      {"protocol", "subjects"},
	"bridge/internal/receiver":   {},
	"bridge/internal/request":    {"bridge/internal/failure", "fdbpq", "fdbpq/schedule", "protocol", "subjects"},
	"bridge/internal/reserve":    {"subjects"},
	"bridge/internal/simulation": {},
	"bridge/internal/sources":    {"bridge/internal/codec", "bridge/internal/failure", "fdbpq", "fdbpq/kv", "fdbpq/source", "protocol", "subjects"},
	"bridge/internal/survey":     {"bridge/internal/failure", "bridge/internal/request", "fdbpq", "fdbpq/kv", "fdbpq/link", "fdbpq/source", "protocol"},
	"bridge/internal/tenants":    {"bridge/internal/failure", "bridge/internal/request", "protocol", "subjects"},
	"bridge/internal/waiting":    {"fdbpq", "fdbpq/kv"},

	"fdbpq/recipe":              {"fdbpq", "fdbpq/kv", "internal/tuple"},
	"fdbpq/internal/damage":     {"fdbpq/kv"},
	"fdbpq/internal/inside":     {"fdbpq/internal/damage", "fdbpq/internal/layout", "fdbpq/internal/storetime", "fdbpq/kv", "internal/tuple"},
	"fdbpq/internal/jsonfields": {"internal/jsontext"},
	"fdbpq/internal/layout":     {"internal/tuple"},
	"fdbpq/internal/named":      {"fdbpq", "fdbpq/internal/layout", "fdbpq/kv", "internal/tuple"},
	"fdbpq/internal/rota":       {},
	"fdbpq/internal/session":    {"fdbpq/kv", "internal/tuple"},
	"fdbpq/internal/storetime":  {"fdbpq/kv"},

	"internal/calendar":    {},
	"internal/clustertest": {"fdbpq/kv/cluster", "internal/patience"},
	"internal/console":     {}, // files for browsers, which speak to the gateway alone
	"internal/expense":     {"internal/patience"},
	"internal/disk":        {},
	"internal/fault":       {"fdbpq/kv"},
	"internal/fdbtest":     {"internal/patience"},
	"internal/gateway":     {"internal/jsontext", "internal/lanes", "protocol", "subjects"}, // a client among others, which answers its callers in the words of the bridge and repeats nothing: it has nothing of the bridge and no store
	"internal/generate":    {"protocol"},
	"internal/history":     {},
	"internal/interest":    {},
	"internal/jetstream":   {"fdbpq/kv/cluster"},
	"internal/jsontext":    {},
	"internal/lanes":       {}, // calls at the same time, of whatever client
	"internal/kvtest":      {"fdbpq/kv", "internal/patience"},
	"internal/nightly":     {},
	"internal/patience":    {},
	"internal/natsurl":     {},
	"internal/reason":      {},
	"internal/roff":        {},
	"internal/screen":      {},
	"internal/seams":       {},
	"internal/storecheck":  {"fdbpq", "fdbpq/link", "fdbpq/schedule", "fdbpq/source"},
	"internal/tuple":       {},
	"internal/vt":          {},

	"e2e/internal/cases":    {"e2e/internal/pqd", "testenv"},
	"e2e/internal/chromium": {"e2e/internal/pqd", "testenv"},
	"e2e/internal/nodejs":   {"e2e/internal/pqd"},
	"e2e/internal/pqd":      {"client", "fdbpq/kv", "fdbpq/kv/local", "internal/history", "internal/tuple", "protocol", "testenv"},

	"cmd/pq":                      {"client", "cmd/pq/internal/deadletters", "cmd/pq/internal/doctor", "cmd/pq/internal/figures", "cmd/pq/internal/foreign", "cmd/pq/internal/manual", "cmd/pq/internal/named", "cmd/pq/internal/session", "cmd/pq/internal/show", "cmd/pq/internal/top", "internal/jsontext", "internal/natsurl", "internal/roff", "internal/screen", "protocol", "subjects"},
	"cmd/pq/internal/deadletters": {"client", "cmd/pq/internal/session", "cmd/pq/internal/show", "subjects"},
	"cmd/pq/internal/doctor":      {"client", "cmd/pq/internal/figures", "cmd/pq/internal/session", "cmd/pq/internal/show", "internal/natsurl", "protocol"},
	"cmd/pq/internal/figures":     {"client", "cmd/pq/internal/show", "internal/screen", "subjects"},
	"cmd/pq/internal/foreign":     {"client", "internal/reason", "protocol"},
	"cmd/pq/internal/manual":      {"docs", "internal/screen"},
	"cmd/pq/internal/named":       {"client", "cmd/pq/internal/show", "protocol"},
	"cmd/pq/internal/session":     {"client", "cmd/pq/internal/show", "internal/natsurl", "subjects"},
	"cmd/pq/internal/show":        {"client", "internal/screen", "protocol"},
	"cmd/pq/internal/top":         {"client", "cmd/pq/internal/deadletters", "cmd/pq/internal/figures", "cmd/pq/internal/session", "cmd/pq/internal/show", "internal/natsurl", "internal/screen"},
	"cmd/pqd":                     {"bridge", "cmd/pqd/internal/broker", "cmd/pqd/internal/election", "cmd/pqd/internal/link", "cmd/pqd/internal/process", "cmd/pqd/internal/settings", "fdbpq", "fdbpq/kv", "fdbpq/kv/cluster", "fdbpq/kv/fdb", "fdbpq/kv/local", "internal/console", "internal/gateway", "internal/interest", "internal/jetstream", "internal/natsurl", "internal/storecheck", "internal/tuple", "protocol", "subjects"},
	"cmd/pqd/internal/election":   {},
	"cmd/pqd/internal/broker":     {"bridge", "cmd/pqd/internal/settings", "protocol"},
	"cmd/pqd/internal/link":       {},
	"cmd/pqd/internal/process":    {"cmd/pqd/internal/settings", "subjects"},
	"cmd/pqd/internal/settings":   {"internal/jetstream", "internal/jsontext", "internal/natsurl", "subjects"},
	"deploy/helm/schemas":         {},
	"deploy/release":              {"internal/roff"},
	"deploy/site":                 {},
	"examples/worker":             {"client"},
	"examples/outbox":             {"fdbpq", "fdbpq/kv", "fdbpq/kv/fdb"},
	"bench":                       {"client"},
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
	{"github.com/nats-io/nats-server/v2", []string{"cmd/pqd", "cmd/pqd/internal/broker", "cmd/pqd/internal/election", "e2e/internal/pqd", "internal/interest", "testenv", "bench"}, "a client must not carry a server"},
	{"github.com/nats-io/nats.go", []string{"bridge", "bridge/internal/codec", "bridge/internal/listening", "bridge/internal/peers", "bridge/internal/receiver", "bridge/internal/request", "bridge/internal/sources", "internal/jetstream", "client", "internal/gateway", "cmd/pqd", "cmd/pqd/internal/broker", "cmd/pqd/internal/link", "cmd/pq", "cmd/pq/internal/doctor", "cmd/pq/internal/foreign", "cmd/pq/internal/session", "cmd/pq/internal/top", "e2e/internal/cases", "e2e/internal/pqd", "testenv", "bench", "examples/worker"}, "the core knows no network"},
	{"github.com/redis/go-redis/v9", []string{"cmd/pq/internal/foreign", "bench"}, "it is for jobs that come from Redis, and for comparison with it"},
	{"github.com/cockroachdb/pebble/v2", []string{"fdbpq/kv/local"}, "engines are used through the seam"},
	{"github.com/hanwen/go-fuse/v2", []string{"internal/disk"}, "it is for one file system of tests"},
	{"github.com/apple/foundationdb/bindings/go", []string{"fdbpq/kv/fdb", "examples/outbox"}, "engines are used through the seam"},
	{"github.com/kelseyhightower/envconfig", []string{"cmd/pqd", "cmd/pqd/internal/settings", "cmd/pq"}, "packages take options, programs read the environment"},
	{"github.com/google/jsonschema-go", []string{"internal/generate"}, "programs and clients have what is generated"},
	{"github.com/spf13/cobra", []string{"cmd/pq", "cmd/pq/internal/doctor", "cmd/pq/internal/session", "cmd/pq/internal/top"}, "one program has commands"},
	{"go.opentelemetry.io/otel/sdk", []string{"cmd/pqd"}, "packages take a tracer, the program makes it"},
	{"go.opentelemetry.io/otel/exporters", []string{"cmd/pqd"}, "packages take a tracer, the program makes it"},
	{"testing", []string{"testenv", "internal/disk", "internal/expense", "internal/nightly", "internal/fdbtest", "internal/kvtest", "internal/clustertest", "e2e/internal/cases", "e2e/internal/chromium", "e2e/internal/nodejs", "e2e/internal/pqd"}, "production code is not test code"},
}

// seam bounds how much the files of a package need each other: pairs of files that use each other, and uses of a later
// file in the best order of them; and how many types have methods in more than one file. A change may lower all three, and the
// bounds with them. How many files there are, and how many lines they have, is bounded nowhere.
type seam struct{ mutual, upward, scattered int }

// counted are the packages whose seams are bounded.
var counted = []string{"./bridge/...", "./client", "./cmd/...", "./fdbpq/...", "./internal/gateway"}

// seamsOf has those of them that have any. All others have none: no pairs, and each type in its file.
var seamsOf = map[string]seam{
	"bridge":                    {42, 44, 9},
	"bridge/internal/batch":     {3, 3, 2},
	"bridge/internal/codec":     {5, 7, 5},
	"bridge/internal/peers":     {4, 4, 3},
	"bridge/internal/receiver":  {3, 4, 1},
	"bridge/internal/request":   {6, 6, 3},
	"bridge/internal/sources":   {7, 8, 2},
	"bridge/internal/survey":    {0, 0, 1},
	"bridge/internal/tenants":   {1, 1, 1},
	"bridge/internal/waiting":   {4, 4, 2},
	"client":                    {17, 19, 7},
	"cmd/pq":                    {6, 6, 4},
	"cmd/pq/internal/doctor":    {8, 8, 1},
	"cmd/pq/internal/foreign":   {3, 3, 0},
	"cmd/pq/internal/manual":    {2, 2, 1},
	"cmd/pq/internal/session":   {3, 5, 1},
	"cmd/pq/internal/top":       {6, 6, 2},
	"cmd/pqd":                   {10, 11, 5},
	"cmd/pqd/internal/broker":   {0, 0, 1},
	"cmd/pqd/internal/settings": {5, 5, 3},
	"fdbpq":                     {0, 0, 21},
	"fdbpq/internal/layout":     {1, 1, 2},
	"fdbpq/internal/named":      {0, 0, 1},
	"fdbpq/internal/storetime":  {0, 0, 1},
	"fdbpq/kv/cluster":          {30, 31, 5},
	"fdbpq/kv/local":            {28, 30, 11},
	"fdbpq/link":                {2, 2, 1},
	"fdbpq/recipe":              {1, 1, 1},
	"fdbpq/schedule":            {2, 2, 4},
	"fdbpq/source":              {1, 1, 3},
	"internal/gateway":          {16, 19, 4},
}

// maxBridgeMethods bounds what the bridge as a whole can do. Its parts know each other
// by narrow constructors, and none of them knows the bridge.
const maxBridgeMethods = 8

// changingItems are the types of fdbpq that embed a queueTx, through which items change, queues are made, and events are
// reported. All others, keys above all, have queueRows. Nothing new comes in.
var changingItems = []string{
	"bulkPage", "deadLetters", "delays", "expiries", "garbage", "holds", "leases", "popIDs", "pops", "pusher", "retries",
}

// topLevel is everything that may lie in the repository's root.
var topLevel = []string{
	".ci", ".dockerignore", ".github", ".gitignore",
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
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."), entry.IsDir() && entry.Name() == "testdata":
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
	return s.test || s.dir == "testenv" || within(s.dir, "e2e") || slices.Contains([]string{"internal/clustertest", "internal/disk", "internal/fdbtest", "internal/kvtest"}, s.dir)
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		allowed, known := imports[s.dir]
		if !known {
			t.Errorf("%s: the package %s is not on the list of packages", s.path, s.dir)
			continue
		}
		for _, imported := range s.imports(t) {
			if ours, is := strings.CutPrefix(imported, module+"/"); is && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s: expected only %v", s.path, ours, allowed)
			}
			for _, rule := range outside {
				if within(imported, rule.path) && !slices.Contains(rule.by, s.dir) {
					t.Errorf("%s imports %s: only %v may, because %s", s.path, imported, rule.by, rule.why)
				}
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

// Who changes a file of a package has to know the files that it needs, and those that need it; who looks for a method
// looks in the file of its type. make seams shows the counts.
func TestSeams(t *testing.T) {
	all, err := seams.Count(counted...)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + seams.Table(all))
	seen := make(map[string]bool)
	for _, p := range all {
		dir := strings.TrimPrefix(p.Path, module+"/")
		seen[dir] = true
		most := seamsOf[dir]
		if len(p.Mutual) > most.mutual {
			t.Errorf("%s has %d pairs of files that use each other: expected at most %d of %v", dir, len(p.Mutual), most.mutual, p.Mutual)
		}
		if len(p.Upward) > most.upward {
			t.Errorf("%s has %d uses upwards: expected at most %d of %v", dir, len(p.Upward), most.upward, p.Upward)
		}
		if len(p.Scattered) > most.scattered {
			t.Errorf("%s has %d types with methods in more than one file: expected at most %d of %v", dir, len(p.Scattered), most.scattered, p.Scattered)
		}
	}
	for dir := range seamsOf {
		if !seen[dir] {
			t.Errorf("%s has bounds, and was not counted: expected a package of %v", dir, counted)
		}
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
