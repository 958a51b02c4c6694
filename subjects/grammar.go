// Package subjects is the grammar of the subjects that the bridge answers, as
// docs/protocol.md lists them: it parses them, builds them, and says which of
// them each party needs.
//
// A subject that parses builds to the same subject again, and one that builds
// parses to the same fields. Errors say which rule was broken and what is
// allowed; their texts are short, printable ASCII and fit to be sent to the client.
package subjects

import (
	"fmt"
	"strings"
)

// MaxPrefix bounds the bytes of a prefix.
const MaxPrefix = 128

// sysToken stands where a queue's name stands, for what concerns no queue.
const sysToken = "_sys"

// Grammar knows the subjects under one prefix. Get one from [New].
type Grammar struct {
	prefix string // with the dot that follows it
}

// New returns the grammar under a prefix: one or more tokens of A-Z a-z 0-9 - _,
// joined by dots. The first must not start with _, because NATS keeps inboxes
// and replies there.
func New(prefix string) (Grammar, error) {
	fits := len(prefix) <= MaxPrefix && !strings.HasPrefix(prefix, "_")
	for token := range strings.SplitSeq(prefix, ".") {
		fits = fits && isName(token)
	}
	if !fits {
		return Grammar{}, fmt.Errorf("prefix %s: expected tokens of A-Z a-z 0-9 - _ joined by dots, not starting with _, at most %d bytes in all", quote(prefix), MaxPrefix)
	}
	return Grammar{prefix: prefix + "."}, nil
}

// Prefix returns the prefix, without a dot at its end.
func (g Grammar) Prefix() string { return strings.TrimSuffix(g.prefix, ".") }

// All is the pattern of everything under the prefix.
func (g Grammar) All() string { return g.prefix + ">" }

// Acks is the pattern of all settlements.
func (g Grammar) Acks() string { return g.prefix + "*.ack.>" }

// AcksOf is the pattern of the settlements of what one connection handed out.
func (g Grammar) AcksOf(conn string) string { return g.prefix + "*.ack." + conn + ".>" }

// Events is the pattern of a queue's events, or of all queues' when queue is *.
func (g Grammar) Events(queue string) string { return g.prefix + queue + ".event.*" }

// Pushes match every push, well formed or not.
func (g Grammar) Pushes() []string { return []string{g.prefix + "*.push", g.prefix + "*.push.>"} }
