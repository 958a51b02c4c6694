package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// verb is a verb of package subjects: what all subjects ask for that have the same words.
type verb struct {
	name    string // of the constant
	words   string // the tokens that are no arguments
	right   protocol.Roles
	changes bool // an operation changes something
}

// node is a token of subjects, with all that may follow it.
type node struct {
	token string // a word, or an argument in <…>
	field string // of an argument: the field of Subject that has it
	verb  *verb  // of the subject that ends here; nil: none does
	below []*node
}

// grammar has all subjects.
type grammar struct {
	ofQueue, ofSystem *node // what follows the name of a queue, or _sys
	verbs             []*verb
	queueVerbs        int // so many of verbs, from the first one on, are about a queue
}

// systemToken begins the subjects that are about no queue.
const systemToken = "_sys."

// newGrammar reads the subjects of operations. Verbs have the order of their first operations, but those of administrators
// come later, then events, then what is about no queue.
func newGrammar(ops []protocol.Op) (*grammar, error) {
	g := &grammar{ofQueue: new(node), ofSystem: new(node)}
	each := func(which func(subject string) bool) error {
		for i := range ops {
			if !which(ops[i].Subject) {
				continue
			}
			for _, form := range ops[i].Subjects() {
				if err := g.add(form, ops[i].Right, ops[i].Again != protocol.Reads); err != nil {
					return fmt.Errorf("operation %q: %w", ops[i].Name, err)
				}
			}
		}
		return nil
	}
	admin := func(s string) bool { return strings.HasPrefix(s, "<queue>.admin.") }
	system := func(s string) bool { return strings.HasPrefix(s, systemToken) }
	if err := each(func(s string) bool { return !admin(s) && !system(s) }); err != nil {
		return nil, err
	}
	if err := each(admin); err != nil {
		return nil, err
	}
	if err := g.add("<queue>.event.<type>", 0, false); err != nil {
		return nil, err
	}
	g.queueVerbs = len(g.verbs)
	return g, each(system)
}

// fields has the arguments, each with the field of Subject that has it. That of <name> is called after the token in front.
var fields = map[string]string{
	"<priority>": "Priority", "<connection>": "Conn", "<token>": "Token", "<id>": "ID", "<key>": "Key", "<type>": "Event",
}

// add adds a subject.
func (g *grammar) add(form string, right protocol.Roles, changes bool) error {
	at, rest, constant := g.ofQueue, "", ""
	var words []string
	switch queue, system := strings.CutPrefix(form, "<queue>."); {
	case system:
		rest = queue
	default:
		if rest, system = strings.CutPrefix(form, systemToken); !system {
			return fmt.Errorf("the subject %s: expected <queue> or %s in front", form, systemToken)
		}
		at, words, constant = g.ofSystem, []string{"_sys"}, "Sys"
	}
	before := ""
	for token := range strings.SplitSeq(rest, ".") {
		var err error
		if at, err = at.child(token, before); err != nil {
			return fmt.Errorf("the subject %s: %w", form, err)
		}
		if at.field == "" {
			words = append(words, token)
			for part := range strings.SplitSeq(token, "-") {
				constant += exported(part)
			}
		}
		before = token
	}
	if constant == "" || at.field != "" && words[0] == "_sys" {
		return fmt.Errorf("the subject %s: expected a word, and no argument behind %s", form, systemToken)
	}
	if at.verb == nil {
		at.verb = g.verbOf(constant, strings.Join(words, "."), right)
	}
	if at.verb.right != right {
		return fmt.Errorf("the subject %s: expected the roles of the other operation with it", form)
	}
	at.verb.changes = at.verb.changes || changes
	return nil
}

// verbOf finds a verb by its name, or adds it.
func (g *grammar) verbOf(name, words string, right protocol.Roles) *verb {
	if at := slices.IndexFunc(g.verbs, func(v *verb) bool { return v.name == name }); at >= 0 {
		return g.verbs[at]
	}
	v := &verb{name: name, words: words, right: right}
	g.verbs = append(g.verbs, v)
	return v
}

// child returns what follows a node with a token, which it adds if necessary. before is the token of the node.
func (n *node) child(token, before string) (*node, error) {
	for _, c := range n.below {
		if c.token == token {
			return c, nil
		}
	}
	c := &node{token: token}
	if strings.HasPrefix(token, "<") {
		c.field = fields[token]
		if token == "<name>" && before != "" {
			c.field = exported(before)
		}
		if c.field == "" {
			return nil, fmt.Errorf("the argument %s: expected one of which fields knows the field", token)
		}
	}
	if len(n.below) > 0 && (c.field != "" || n.below[0].field != "") {
		return nil, fmt.Errorf("%s and %s: expected words alone where there are several", n.below[0].token, token)
	}
	n.below = append(n.below, c)
	return c, nil
}

// named reports whether a name stands in front of further words, as in admin.link.<name>.pause.
func (n *node) named() bool { return n.field != "" && n.verb != nil && len(n.below) > 0 }

// each calls f with all subjects at and below a node, by their tokens behind before.
func (n *node) each(before string, f func(form string, n *node)) {
	if n.verb != nil {
		f(before, n)
	}
	for _, c := range n.below {
		form := c.token
		if before != "" {
			form = before + "." + c.token
		}
		c.each(form, f)
	}
}

// pattern matches the subjects of verbs.
type pattern struct {
	text  string
	verbs []*verb
}

// patterns are the fewest patterns of the subjects below a node, behind before, for which a role has the right.
func (n *node) patterns(before string, may func(*verb) bool) (all []pattern) {
	var ends []*verb // of subjects that differ in one word
	for _, c := range n.below {
		if c.ends() {
			ends = append(ends, c.verb)
		}
	}
	together := before != "" && len(ends) > 1 && !slices.ContainsFunc(ends, func(v *verb) bool { return !may(v) })
	for _, c := range n.below {
		text := before + c.token
		if c.field != "" {
			text = before + "*"
		}
		var below []*verb
		c.each("", func(_ string, n *node) { below = append(below, n.verb) })
		switch {
		case together && c.ends():
			if c.verb == ends[0] {
				all = append(all, pattern{before + "*", ends})
			}
			continue
		case c.named() && !slices.ContainsFunc(below, func(v *verb) bool { return !may(v) }):
			all = append(all, pattern{before + ">", below})
			continue
		case c.verb != nil && may(c.verb):
			all = append(all, pattern{text, []*verb{c.verb}})
		}
		all = append(all, c.patterns(text+".", may)...)
	}
	return all
}

// ends reports whether a subject ends with the word, and no other goes on.
func (n *node) ends() bool { return n.field == "" && n.verb != nil && len(n.below) == 0 }

// of are the patterns of the requests about a queue that a role may send. Those of readers begin with what changes nothing, and
// that with what requeuers may ask for, too.
func (g *grammar) of(role protocol.Roles) (texts []string) {
	all := g.ofQueue.patterns("", func(v *verb) bool { return v.right&role != 0 })
	if role == protocol.Viewer || role == protocol.Admin {
		slices.SortStableFunc(all, func(a, b pattern) int { return a.rank() - b.rank() })
	}
	for _, p := range all {
		texts = append(texts, p.text)
	}
	return texts
}

// rank orders the patterns of readers.
func (p *pattern) rank() int {
	switch {
	case slices.ContainsFunc(p.verbs, func(v *verb) bool { return v.changes }):
		return 2
	case p.verbs[0].right&protocol.Requeuer == 0:
		return 1
	}
	return 0
}

// ofAll are the verbs about no queue for which a role has the right.
func (g *grammar) ofAll(role protocol.Roles) (names []string) {
	for _, v := range g.verbs[g.queueVerbs:] {
		if v.right&role != 0 {
			names = append(names, v.name)
		}
	}
	return names
}
