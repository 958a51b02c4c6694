package protocol_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// mirror is a place in which a client has its methods.
type mirror struct {
	client string
	in     string
	find   func(t *testing.T) methods
	spell  func(op string) string // the name of a method
}

// methods are those that a client has, of the client and of a queue or an item.
type methods struct{ ofClient, ofQueue []string }

var mirrors = []mirror{
	{"Go", "client", goMethods, func(op string) string { return title(camel(op)) }},
	{"JavaScript", "clients/js/src", inClasses("../clients/js/src", ".js", regexp.MustCompile(`(?m)^  (?:async )?\*?([a-zA-Z]+)\(.*\{$`)), camel},
	{"JavaScript", "clients/js/index.d.ts", inFile("../clients/js/index.d.ts", regexp.MustCompile(`(?m)^export (?:interface|class) (\w+)`), regexp.MustCompile(`(?m)^  ([a-zA-Z]+)\(`)), camel},
	{"Python", "clients/python/pqbridge", inClasses("../clients/python/pqbridge", ".py", regexp.MustCompile(`(?m)^    (?:async )?def (\w+)\(`)), snake},
	{"Python", "clients/python/pqbridge/sync.py", inFile("../clients/python/pqbridge/sync.py", regexp.MustCompile(`(?m)^class (\w+)`), regexp.MustCompile(`(?m)^    (?:def )?(\w+)(?:\(| = )`)), snake},
}

// otherwise are the methods that have another name than the operation.
var otherwise = map[string]map[string]string{
	"Go": {
		"bulk remove": "Bulk", "bulk move": "Bulk", "bulk revoke": "Bulk", "bulk requeue": "Bulk", // with a verb
		"import":         "ImportAsync",
		"replace node":   "Replace", // since 0.1.0
		"system history": "History",
	},
	"JavaScript": {
		"bulk remove": "bulk", "bulk move": "bulk", "bulk revoke": "bulk", "bulk requeue": "bulk",
		"nack": "nak", "terminate": "term", // as nats.js
		"system history": "history",
	},
	"Python": {
		"bulk remove": "bulk", "bulk move": "bulk", "bulk revoke": "bulk", "bulk requeue": "bulk",
		"import": "import_item",              // import is a keyword
		"nack":   "nak", "terminate": "term", // as nats-py
		"system history": "history",
	},
}

// absent are the operations that a client lacks, and why.
var absent = map[string]map[string]string{
	"Go": {
		"ack next": "a pop beside the acknowledgement takes as many round trips, and Consume does both",
		"take":     "between stores alone",
	},
	"JavaScript": {
		"import": "pq import and the Go and Python clients put items back",
		"take":   "between stores alone",
	},
	"Python": {
		"take": "between stores alone",
	},
}

// Each client has each operation, in each of the places where it has its methods.
func TestClients(t *testing.T) {
	t.Parallel()
	for _, m := range mirrors {
		found := m.find(t)
		if len(found.ofClient) == 0 || len(found.ofQueue) == 0 {
			t.Errorf("%s: found no methods", m.in)
		}
		for _, o := range protocol.Ops {
			name := m.spell(o.Name)
			if other := otherwise[m.client][o.Name]; other != "" {
				name = other
			}
			all := found.ofClient
			if o.OfQueue() {
				all = found.ofQueue
			}
			why := absent[m.client][o.Name]
			switch has := slices.Contains(all, name); {
			case !has && why == "":
				t.Errorf("%s lacks %s, for the operation %q: write it, or list it as absent", m.in, name, o.Name)
			case has && why != "":
				t.Errorf("%s has %s: the operation %q is listed as absent", m.in, name, o.Name)
			}
		}
	}
	for _, list := range []map[string]map[string]string{otherwise, absent} {
		for client, ops := range list {
			for name := range ops {
				if _, is := protocol.OpNamed(name); !is {
					t.Errorf("%s: %q is listed and no operation", client, name)
				}
			}
		}
	}
}

// asked are the operations that a client asks for under the name of another one, whose answer is the same.
var asked = map[string]string{"ack many": "ack", "push many": "push", "bulk remove": "bulk ", "bulk move": "bulk ", "bulk revoke": "bulk ", "bulk requeue": "bulk "}

// The Go client names each operation that it has as the table does: by the name it finds out whether it may repeat it.
func TestGoClientNamesOperations(t *testing.T) {
	t.Parallel()
	named := make(map[string]bool)
	for _, f := range goFiles(t) {
		ast.Inspect(f, func(n ast.Node) bool {
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
				if text, err := strconv.Unquote(literal.Value); err == nil {
					named[text] = true
				}
			}
			return true
		})
	}
	for _, o := range protocol.Ops {
		name := o.Name
		if asked[name] != "" {
			name = asked[name]
		}
		if !named[name] && absent["Go"][o.Name] == "" {
			t.Errorf("client has no text %q, the name of an operation", name)
		}
	}
}

// The other clients ask for operations by names of the table, too: what it does not know is never repeated.
func TestClientsNameOperations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		files string
		asks  *regexp.Regexp
		spell func(string) string
		own   []string // names for what the client repeats or not by itself
	}{
		{"../clients/js/src/*.js", regexp.MustCompile(`(?:\bop: |#ask\(|\bask\(queue, )"(\w+)"`), camel, []string{"bulk", "consume"}},
		{"../clients/python/pqbridge/*.py", regexp.MustCompile(`\b(?:Request|ask|_ask|_pages|_about)\((?:"\w+", )?"(\w+)", `), snake, []string{"replace"}},
	} {
		known := make(map[string]bool)
		for _, o := range protocol.Ops {
			known[c.spell(o.Name)] = true
		}
		names, err := filepath.Glob(c.files)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, name := range names {
			for _, op := range groups(c.asks, read(t, name)) {
				if found++; !known[op] && !slices.Contains(c.own, op) {
					t.Errorf("%s asks for %s, which is no operation", name, op)
				}
			}
		}
		if found < 20 {
			t.Errorf("%s: found %d requests", c.files, found)
		}
	}
}

func goFiles(t *testing.T) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob("../client/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func goMethods(t *testing.T) (found methods) {
	for _, f := range goFiles(t) {
		for _, declared := range f.Decls {
			method, is := declared.(*ast.FuncDecl)
			if !is || method.Recv == nil {
				continue
			}
			of, _ := method.Recv.List[0].Type.(*ast.StarExpr)
			if of == nil {
				continue
			}
			if class, is := of.X.(*ast.Ident); is { // those of generic types are not for programs
				found.add(class.Name, method.Name.Name)
			}
		}
	}
	return found
}

func (m *methods) add(class string, names ...string) {
	switch class {
	case "Client":
		m.ofClient = append(m.ofClient, names...)
	case "Queue", "Item":
		m.ofQueue = append(m.ofQueue, names...)
	}
}

// inClasses finds the methods of classes that have a file each.
func inClasses(folder, ext string, method *regexp.Regexp) func(*testing.T) methods {
	return func(t *testing.T) (found methods) {
		for _, class := range []string{"Client", "Queue", "Item"} {
			found.add(class, groups(method, read(t, folder+"/"+strings.ToLower(class)+ext))...)
		}
		return found
	}
}

// inFile finds the methods of classes that share a file.
func inFile(file string, class, method *regexp.Regexp) func(*testing.T) methods {
	return func(t *testing.T) (found methods) {
		text := read(t, file)
		starts := class.FindAllStringSubmatchIndex(text, -1)
		for i, at := range starts {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			found.add(text[at[2]:at[3]], groups(method, text[at[1]:end])...)
		}
		return found
	}
}

func groups(pattern *regexp.Regexp, text string) (all []string) {
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		all = append(all, match[1])
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func snake(op string) string { return strings.ReplaceAll(op, " ", "_") }

func camel(op string) string {
	words := strings.Fields(op)
	for i := range words[1:] {
		words[i+1] = title(words[i+1])
	}
	return strings.Join(words, "")
}

func title(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
