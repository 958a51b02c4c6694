package clients_test

import (
	"fmt"
	"go/format"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Every example of the protocol prints what it shows. A page has the same session in
// each of its languages, on a pqd of its own.

// protocolPages are the pages of the protocol, all of which have examples.
func protocolPages(t *testing.T) []string {
	t.Helper()
	pages := matching(t, "../../docs/protocol.md", "../../docs/protocol/*.md")
	if len(pages) < 2 {
		t.Fatalf("found %v: expected the entry and a page for each kind of request", pages)
	}
	return pages
}

// clientsPage has an example in each language of a NATS client.
const clientsPage = "../../docs/clients.md"

// examplesIn returns the examples in a language of the pages that have some.
func examplesIn(t *testing.T, language string) map[string][]testenv.Block {
	t.Helper()
	blocks := make(map[string][]testenv.Block)
	for _, page := range append(protocolPages(t), clientsPage) {
		if strings.Contains(pqd.Read(t, page), "\n```"+language+"\n") {
			blocks[page] = testenv.Blocks(t, page, language)
		}
	}
	if len(blocks) < 2 {
		t.Fatalf("examples in %s on %d pages: expected the entry, and a page for each form of request", language, len(blocks))
	}
	return blocks
}

// goProgram runs the examples of one page as functions, in their order.
const goProgram = `package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const timeout = time.Duration(%d)

func main() {
	nc, err := nats.Connect(os.Args[1], nats.Timeout(timeout))
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	for _, example := range examples[os.Args[2]] {
		if err := example(ctx, nc); err != nil {
			fmt.Println("error:", err)
		}
		fmt.Println(%q)
	}
}

// Not every page has an example that uses them.
var _ = errors.As
var _ bytes.Buffer
var _ strings.Builder
var _ = json.Unmarshal
var _ = jetstream.New

var examples = map[string][]func(ctx context.Context, nc *nats.Conn) error{
%s}
`

func TestProtocolInGo(t *testing.T) {
	t.Parallel()
	blocks := examplesIn(t, "go")
	var functions strings.Builder
	for _, page := range slices.Sorted(maps.Keys(blocks)) {
		fmt.Fprintf(&functions, "%q: {\n", page)
		for _, block := range blocks[page] {
			if formatted, err := format.Source([]byte(block.Text)); err != nil {
				t.Errorf("%s: %v", block.Where(0), err)
			} else if string(formatted) != block.Text {
				t.Errorf("%s: not gofmt'd: expected\n%s", block.Where(0), formatted)
			}
			fmt.Fprintf(&functions, "func(ctx context.Context, nc *nats.Conn) error {\n//line %s\n%sreturn nil\n},\n", block.Where(0), block.Text)
		}
		functions.WriteString("},\n")
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	pqd.Write(t, source, fmt.Sprintf(goProgram, testenv.Patience(), separator, functions.String()))
	program := filepath.Join(dir, "examples")
	if out, err := pqd.Compiler(t, "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("build the examples: %v\n%s", err, out)
	}
	for _, page := range slices.Sorted(maps.Keys(blocks)) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			p := testenv.Daemon(t, settingsOf(t, page)...)
			judgeExamples(t, blocks[page], pqd.Run(t, program, p.URL, page), `fmt\.Print\w*\(.*\)`)
			p.Stop(t)
		})
	}
}

// nodeProgram runs the examples of one page in JavaScript.
const nodeProgram = `import { connect } from "@nats-io/transport-node";
import { headers, nanos } from "@nats-io/nats-core";
import { jetstream } from "@nats-io/jetstream";

const timeout = %d;
const nc = await connect({ servers: process.argv[2] });
const js = jetstream(nc, { timeout });

const examples = [
%s];
for (const example of examples) {
  try {
    await example();
  } catch (err) {
    console.log("error:", err);
  }
  console.log(%q);
}
await nc.close();
`

func TestProtocolInJavaScript(t *testing.T) {
	nightly.Only(t, "TestProtocolInTheTerminal has the same steps")
	t.Parallel()
	node := nodejs.Need(t)
	dir := node.Dir(t)
	examples := examplesIn(t, "js")
	for _, page := range slices.Sorted(maps.Keys(examples)) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			blocks := examples[page]
			var functions strings.Builder
			for _, block := range blocks {
				fmt.Fprintf(&functions, "async () => { // %s\n%s},\n", block.Where(0), block.Text)
			}
			source := filepath.Join(dir, strings.TrimSuffix(filepath.Base(page), ".md")+".mjs")
			pqd.Write(t, source, fmt.Sprintf(nodeProgram, testenv.Patience().Milliseconds(), functions.String(), separator))
			p := testenv.Daemon(t, settingsOf(t, page)...)
			judgeExamples(t, blocks, pqd.Run(t, node.Path, source, p.URL), `console\.log\(.*\);`)
			p.Stop(t)
		})
	}
}

// pythonProgram runs the examples of one page in Python.
const pythonProgram = `import asyncio, json, sys
import nats, nats.errors, nats.js.errors

timeout = %d

async def main():
    nc = await nats.connect(sys.argv[1])
    js = nc.jetstream(timeout=timeout)
    for example in examples:
        try:
            await example(nc, js)
        except Exception as err:
            print("error:", repr(err))
        print(%q, flush=True)
    await nc.close()

examples = []
%s
asyncio.run(main())
`

func TestProtocolInPython(t *testing.T) {
	nightly.Only(t, "TestProtocolInTheTerminal has the same steps")
	t.Parallel()
	py := needPython(t)
	examples := examplesIn(t, "python")
	for page := range examplesIn(t, "js") {
		if examples[page] == nil {
			t.Errorf("%s has examples in JavaScript, and none in Python", page)
		}
	}
	for _, page := range slices.Sorted(maps.Keys(examples)) {
		t.Run(filepath.Base(page), func(t *testing.T) {
			blocks := examples[page]
			var functions strings.Builder
			for _, block := range blocks {
				fmt.Fprintf(&functions, "async def example(nc, js):  # %s\n", block.Where(0))
				for line := range strings.Lines(block.Text) {
					functions.WriteString("    " + line)
				}
				functions.WriteString("examples.append(example)\n")
			}
			source := filepath.Join(t.TempDir(), "examples.py")
			pqd.Write(t, source, fmt.Sprintf(pythonProgram, int(testenv.Patience().Seconds()), separator, functions.String()))
			p := testenv.Daemon(t, settingsOf(t, page)...)
			out, err := py.command(t, source, p.URL).Output()
			if err != nil {
				t.Fatal(err)
			}
			judgePythonExamples(t, blocks, string(out))
			p.Stop(t)
		})
	}
}

// separator is printed behind each example.
const separator = "----"

// judgeExamples compares what each example printed with the comments that stand
// behind its prints. Where one prints repeatedly, ", then " stands between.
func judgeExamples(t *testing.T, blocks []testenv.Block, output, printing string) {
	t.Helper()
	printed := strings.Split(strings.TrimSuffix(output, separator+"\n"), separator+"\n")
	if len(printed) != len(blocks) {
		t.Fatalf("%d examples, %d outputs:\n%s", len(blocks), len(printed), output)
	}
	prints := regexp.MustCompile(`(?m)^\s*` + printing + `(?:\s+// (.*))?$`)
	for i, block := range blocks {
		matches := prints.FindAllStringSubmatch(block.Text, -1)
		if len(matches) == 0 {
			continue
		}
		var shown []string
		for _, match := range matches {
			if match[1] == "" {
				t.Errorf("%s: expected a comment that says what this prints: %s", block.Where(0), match[0])
			}
			shown = append(shown, strings.Split(match[1], ", then ")...)
		}
		if got := strings.TrimSpace(printed[i]); !testenv.Shown(strings.Join(shown, "\n")).MatchString(got) {
			t.Errorf("%s: the example prints\n%s\nand the page says\n%s", block.Where(0), got, strings.Join(shown, "\n"))
		}
	}
}
