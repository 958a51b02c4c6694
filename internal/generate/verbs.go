package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// verbSource has the verbs of package subjects, how subjects with them are read and written, and who may publish them.
func verbSource(g *grammar) string {
	var b strings.Builder
	b.WriteString("package subjects\n\nimport \"fmt\"\n\n")
	g.writeVerbs(&b)
	fmt.Fprintf(&b, "// queueVerbs is the list in the error for an unknown verb.\nconst queueVerbs = %q\n\n", g.listed())
	g.writePatterns(&b)
	g.writeReaders(&b)
	g.writeBuilders(&b)
	return b.String()
}

func (g *grammar) writeVerbs(b *strings.Builder) {
	fmt.Fprintf(b, "// The verbs. Those from %s on belong to no queue.\nconst (\n", g.verbs[g.queueVerbs].name)
	for i, v := range g.verbs {
		b.WriteString(v.name)
		if i == 0 {
			b.WriteString(" Verb = iota + 1")
		}
		b.WriteString("\n")
	}
	b.WriteString("\nVerbs = iota + 1 // bounds tables that a Verb indexes\n)\n\n")
	b.WriteString("// verbNames holds the tokens of each verb. The name of a schedule, source or link may stand before the last one.\nvar verbNames = [...]string{\n")
	for _, v := range g.verbs {
		fmt.Fprintf(b, "%s: %q,\n", v.name, v.words)
	}
	b.WriteString("}\n\n")
}

// listed are the verbs of queues, without those that follow a name.
func (g *grammar) listed() string {
	var words []string
	for _, v := range g.verbs[:g.queueVerbs] {
		if !g.follows(v) {
			words = append(words, v.words)
		}
	}
	return strings.Join(words, ", ")
}

// follows reports whether a verb's last word follows a name.
func (g *grammar) follows(v *verb) (follows bool) {
	g.ofQueue.each("", func(_ string, n *node) {
		if n.named() {
			follows = follows || slices.ContainsFunc(n.below, func(c *node) bool { return c.verb == v })
		}
	})
	return follows
}

func (g *grammar) writePatterns(b *strings.Builder) {
	b.WriteString("// patterns match the requests of each verb, behind the prefix. Verbs that differ in one word share theirs.\nvar patterns = [...]string{\n")
	every := func(*verb) bool { return true }
	all := append(behind("*.", g.ofQueue.patterns("", every)), g.ofSystem.patterns(systemToken, every)...)
	for _, v := range g.verbs {
		at := slices.IndexFunc(all, func(p pattern) bool { return slices.Contains(p.verbs, v) })
		fmt.Fprintf(b, "%s: %q,\n", v.name, all[at].text)
	}
	b.WriteString("}\n\n// What each role may publish behind the name of a queue.\nvar (\n")
	for i, role := range rolesOf(protocol.Caller | (protocol.Caller - 1)) {
		fmt.Fprintf(b, "%sMay = []string{%s}\n", role, listOf("%q", g.of(1<<i)))
	}
	b.WriteString(")\n\n// What a role at all queues may ask for besides.\nvar (\n")
	fmt.Fprintf(b, "viewerOfAll = []Verb{%s}\n", listOf("%s", g.ofAll(protocol.Viewer)))
	fmt.Fprintf(b, "adminOfAll = []Verb{%s}\n)\n\n", listOf("%s", g.ofAll(protocol.Admin)))
}

func behind(before string, all []pattern) []pattern {
	for i := range all {
		all[i].text = before + all[i].text
	}
	return all
}

func listOf(format string, words []string) string {
	var all []string
	for _, word := range words {
		all = append(all, fmt.Sprintf(format, word))
	}
	return strings.Join(all, ", ")
}

func (g *grammar) writeReaders(b *strings.Builder) {
	b.WriteString(`// readVerb reads the verb of a queue and its arguments. form is what subjects with the first token of the verb look
// like, "" if no verb begins with it. err is what is wrong with an argument.
func (s *Subject) readVerb(t *tokens) (form string, err error) {
switch verb := t.next(); verb {
`)
	var apart []*node // whose words have more below them: the compiler inlines little in a large function
	for _, c := range g.ofQueue.below {
		if c.isDeep() {
			apart = append(apart, c)
			fmt.Fprintf(b, "case %q:\nreturn s.read%s(t)\n", c.token, exported(c.token))
			continue
		}
		fmt.Fprintf(b, "case %q:\nform = %q\n", c.token, c.form())
		c.writeReader(b, c.token)
	}
	b.WriteString("default:\nerr = fmt.Errorf(\"verb %s: expected one of %s\", quote(verb), queueVerbs)\n}\nreturn form, err\n}\n\n")
	for _, c := range apart {
		fmt.Fprintf(b, "// read%s reads the rest of a verb as readVerb does.\nfunc (s *Subject) read%[1]s(t *tokens) (form string, err error) {\nform = %q\n", exported(c.token), c.form())
		c.writeReader(b, c.token)
		b.WriteString("return form, err\n}\n\n")
	}
	var forms []string
	g.ofSystem.each("", func(form string, _ *node) { forms = append(forms, form) })
	fmt.Fprintf(b, "// systemVerbs is the list in the error for another verb that belongs to no queue.\nconst systemVerbs = %q\n\n", orList(forms))
	b.WriteString("// readSystem reads a verb that belongs to no queue.\nfunc (s *Subject) readSystem(t *tokens) {\n")
	g.ofSystem.writeWords(b, "")
	b.WriteString("}\n\n")
}

// isDeep reports whether several words may follow the token, and more behind them.
func (n *node) isDeep() bool {
	return len(n.below) > 1 && slices.ContainsFunc(n.below, func(c *node) bool { return len(c.below) > 0 })
}

// form says in errors what the subjects below a word look like.
func (n *node) form() string {
	var forms []string
	n.each(n.token, func(form string, end *node) {
		if at := strings.LastIndexByte(form, '>'); at < 0 || at == len(form)-1 { // no further word behind a name
			forms = append(forms, form)
		}
	})
	if len(forms) == 1 && !strings.Contains(forms[0], "<") {
		return forms[0] + " alone"
	}
	return orList(forms)
}

func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// writeReader writes how the tokens behind a word are read. before are all tokens up to the word.
func (n *node) writeReader(b *strings.Builder, before string) {
	if n.verb != nil {
		fmt.Fprintf(b, "s.Verb = %s\n", n.verb.name)
	}
	if len(n.below) == 0 {
		return
	}
	if n.below[0].field == "" {
		n.writeWords(b, before)
		return
	}
	if n.verb != nil { // the argument may be missing
		read, check := n.below[0].argument()
		fmt.Fprintf(b, "if t.left {\n%s%s\n}\n", read, check)
		return
	}
	var read, checks []string
	at := n
	for len(at.below) == 1 && at.below[0].field != "" {
		at = at.below[0]
		before += "." + at.token
		r, c := at.argument()
		read, checks = append(read, r), append(checks, c)
	}
	fmt.Fprintf(b, "s.Verb = %s\n", at.verb.name)
	for _, line := range read {
		b.WriteString(line)
	}
	for _, check := range checks[:len(checks)-1] {
		fmt.Fprintf(b, "if %s; err == nil {\n", check)
	}
	b.WriteString(checks[len(checks)-1] + strings.Repeat("\n}", len(checks)-1) + "\n")
	if at.named() {
		var words []string
		for _, c := range at.below {
			words = append(words, c.token)
		}
		fmt.Fprintf(b, "form = %q\nif t.left {\ns.Verb = 0\n", before+", alone or with "+orList(words))
		at.writeWords(b, before)
		b.WriteString("}\n")
	}
}

// argument returns the lines that read an argument, and the statement that checks it.
func (n *node) argument() (read, check string) {
	switch n.token {
	case "<priority>":
		return "s.HasPriority = true\npriority := t.next()\n", "s.Priority, err = ParsePriority(priority)"
	case "<key>":
		return "key := t.next()\n", "s.Key, err = unescapeKey(key)"
	case "<id>":
		check = "err = checkID(s.ID)"
	case "<connection>", "<token>":
		check = fmt.Sprintf("err = checkToken(%q, s.%s)", n.token[1:len(n.token)-1], n.field)
	case "<type>":
		check = `err = checkToken("event type", s.Event)`
	default:
		check = fmt.Sprintf("err = checkName(%q, s.%s)", strings.ToLower(n.field), n.field)
	}
	return fmt.Sprintf("s.%s = t.next()\n", n.field), check
}

// writeWords writes how the next word is read.
func (n *node) writeWords(b *strings.Builder, before string) {
	b.WriteString("switch t.next() {\n")
	for _, c := range n.below {
		fmt.Fprintf(b, "case %q:\n", c.token)
		c.writeReader(b, before+"."+c.token)
	}
	b.WriteString("}\n")
}

func (g *grammar) writeBuilders(b *strings.Builder) {
	b.WriteString("// appendVerb appends the verb with its arguments.\nfunc (s *Subject) appendVerb(b []byte) []byte {\nswitch s.Verb {\n")
	named := make(map[string][]string) // the verbs whose subjects have a name, by its field
	g.ofQueue.each("", func(form string, n *node) {
		tokens := strings.Split(form, ".")
		if !strings.Contains(form, "<") || form == n.verb.words+".<priority>" { // which is appended where there is one
			return
		}
		fmt.Fprintf(b, "case %s:\n", n.verb.name)
		expression, word := "b", ""
		for i, token := range tokens {
			separator := "."[:min(i, 1)]
			switch field := fields[token]; {
			case !strings.HasPrefix(token, "<"):
				word += separator + token
				continue
			case token == "<priority>":
				fmt.Fprintf(b, "return appendPriority(%s, s.Priority)\n", expression)
				return
			case token == "<key>":
				expression = fmt.Sprintf("appendKey(append(%s, %q...), s.Key)", expression, word+separator)
			default:
				if token == "<name>" {
					field = exported(tokens[i-1])
					named[field] = append(named[field], n.verb.name)
				}
				expression = fmt.Sprintf("append(append(%s, %q...), s.%s...)", expression, word+separator, field)
			}
			word = ""
		}
		if word != "" {
			expression = fmt.Sprintf("append(%s, %q...)", expression, word)
		}
		fmt.Fprintf(b, "b = %s\n", expression)
	})
	b.WriteString("default:\nb = append(b, s.Verb.String()...)\n}\nif s.HasPriority {\nb = appendPriority(b, s.Priority)\n}\nreturn b\n}\n\n")
	b.WriteString("// checkNames returns an error unless a schedule, source or link may have the name that the subject has.\nfunc (s *Subject) checkNames() error {\nswitch s.Verb {\n")
	for _, field := range slices.Sorted(maps.Keys(named)) {
		fmt.Fprintf(b, "case %s:\nreturn checkName(%q, s.%s)\n", strings.Join(named[field], ", "), strings.ToLower(field), field)
	}
	b.WriteString("}\nreturn nil\n}\n")
}
