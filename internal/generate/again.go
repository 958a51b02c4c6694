package main

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// repeated are the names, as a client spells them, of the operations of which the table says the same.
func repeated(again protocol.Again, spell func(string) string) string {
	var names []string
	for i := range protocol.Ops {
		if protocol.Ops[i].Again == again {
			names = append(names, spell(protocol.Ops[i].Name))
		}
	}
	return listOf("%q", names)
}

const (
	docReads   = "The operations that change nothing."
	docRepeats = "The operations whose repetition leads to the same state."
)

// againJS says what the client of JavaScript may repeat.
func againJS() string {
	return fmt.Sprintf("// What may be sent twice.\n\n/** %s */\nexport const reads = new Set([%s]);\n\n/** %s */\nexport const repeats = new Set([%s]);\n",
		docReads, repeated(protocol.Reads, camel), docRepeats, repeated(protocol.Repeats, camel))
}

// againPython says what the client of Python may repeat.
func againPython() string {
	snake := func(words string) string { return strings.ReplaceAll(words, " ", "_") }
	return fmt.Sprintf("\"\"\"What may be sent twice.\"\"\"\n\n# %s\nREADS = frozenset({%s})\n\n# %s\nREPEATS = frozenset({%s})\n",
		docReads, repeated(protocol.Reads, snake), docRepeats, repeated(protocol.Repeats, snake))
}
