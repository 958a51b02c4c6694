package testenv

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Requests returns a well-formed subject of each verb that a client may ask of a queue.
func Requests(t testing.TB, g subjects.Grammar, queue string) map[subjects.Verb]string {
	t.Helper()
	arguments := strings.NewReplacer("<queue>", queue, "<priority>", "5", "<connection>", "c", "<token>", "t", "<id>", "x", "<key>", "k", "<name>", "n")
	all := make(map[subjects.Verb]string)
	for i := range protocol.Ops {
		if !protocol.Ops[i].OfQueue() {
			continue
		}
		for _, form := range protocol.Ops[i].Subjects() {
			text := g.Prefix() + "." + arguments.Replace(form)
			s, err := g.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if all[s.Verb] == "" {
				all[s.Verb] = text
			}
		}
	}
	return all
}
