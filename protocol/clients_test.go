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

// The lists of JavaScript and Python of what changes nothing, and of what may be repeated, say what the table says.
func TestClientsRepeat(t *testing.T) {
	t.Parallel()
	// What is not in the lists because it is asked for in another way, or together with what changes something.
	elsewhere := []string{"peek", "history", "config", "cluster", "system history"}
	for _, c := range []struct {
		file  string
		list  *regexp.Regexp
		spell func(string) string
		least protocol.Again
		whole bool // each operation that only reads is in it
	}{
		{"../clients/js/src/call.js", regexp.MustCompile(`(?s)const reads = new Set\((.*?)\)`), camel, protocol.Reads, true},
		{"../clients/js/src/queue.js", regexp.MustCompile(`(?s)const repeatable = new Set\((.*?)\)`), camel, protocol.Repeats, false},
		{"../clients/python/pqbridge/call.py", regexp.MustCompile(`(?s)_READS = frozenset\((.*?)\)`), snake, protocol.Reads, true},
		{"../clients/python/pqbridge/queue.py", regexp.MustCompile(`(?s)_REPEATABLE = frozenset\((.*?)\)`), snake, protocol.Repeats, false},
	} {
		list := c.list.FindStringSubmatch(read(t, c.file))
		if list == nil {
			t.Fatalf("%s: found no list", c.file)
		}
		listed := make(map[string]bool)
		for _, word := range regexp.MustCompile(`"(\w+)"`).FindAllStringSubmatch(list[1], -1) {
			listed[word[1]] = true
		}
		for _, o := range protocol.Ops {
			name := c.spell(o.Name)
			if listed[name] && o.Again < c.least {
				t.Errorf("%s: %s is in a list of what may be repeated, and the table says otherwise", c.file, name)
			}
			if c.whole && o.Again == protocol.Reads && !listed[name] && !slices.Contains(elsewhere, o.Name) {
				t.Errorf("%s: %s is not in the list of what changes nothing", c.file, name)
			}
			delete(listed, name)
		}
		for name := range listed {
			t.Errorf("%s: %s is no operation", c.file, name)
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
