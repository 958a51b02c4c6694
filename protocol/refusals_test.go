package protocol_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// refusal is a row of the table with the name of its constant.
type refusal struct {
	protocol.Refusal
	constant string
}

func (r refusal) word() string   { return string(r.Reason) }
func (r refusal) called() string { return fmt.Sprintf("the reason %s of %d", r.Reason, r.Code) }

func ofCode(code int) func(refusal) bool { return func(r refusal) bool { return r.Code == code } }

func (r refusal) plain() string   { return string(r.Reason) }
func (r refusal) quoted() string  { return strconv.Quote(string(r.Reason)) }
func (r refusal) inTicks() string { return "`" + string(r.Reason) + "`" }

// betweenStores are the reasons that no client gets.
var betweenStores = map[string]string{"giver_behind": "between stores alone", "taker_behind": "between stores alone"}

// ofRefusals are the places that have something for each reason.
var ofRefusals = []surface[refusal]{
	{file: "docs/protocol/pop.md", what: "a line", within: `(?s)## Nothing there\n.*?\n## `, of: ofCode(protocol.CodeNotFound), text: func(r refusal) string { return "\n- " + r.inTicks() + ":" }},
	{file: "docs/protocol.md", what: "a word in the table of errors", within: `(?:\| 409 \|.*\n)+`, of: ofCode(protocol.CodeConflict), text: func(r refusal) string { return string(r.Reason) + "`" }},
	{file: "docs/protocol/settle.md", what: "a line", within: `(?s)## The answer\n.*?\n## `, of: ofCode(protocol.CodeLeaseLost), text: func(r refusal) string { return "\n- " + r.inTicks() + ":" }},
	{file: "docs/protocol.md", what: "a word in the table of errors", within: `\| 429 \|.*`, of: ofCode(protocol.CodeBusy), text: refusal.inTicks},

	{file: "client/errors.go", what: "a constant", text: func(r refusal) string { return r.constant + " " }, absent: betweenStores},
	{file: "clients/js/index.d.ts", what: "a word in the comment of ConflictError", within: `.*\nexport class ConflictError`, of: ofCode(protocol.CodeConflict), text: refusal.inTicks,
		absent: map[string]string{"occupied": "the client has no import", "giver_behind": "between stores alone", "taker_behind": "between stores alone"}},
	{file: "clients/js/index.d.ts", what: "a word in the comment of LeaseLostError", within: `.*\nexport class LeaseLostError`, of: ofCode(protocol.CodeLeaseLost), text: refusal.inTicks},
	{file: "clients/python/pqbridge/errors.py", what: "a word in the text of ConflictError", within: `class ConflictError.*\n.*`, of: ofCode(protocol.CodeConflict), text: refusal.plain, absent: betweenStores},
	{file: "clients/python/pqbridge/errors.py", what: "a word in the text of LeaseLostError", within: `class LeaseLostError.*\n.*`, of: ofCode(protocol.CodeLeaseLost), text: refusal.plain},

	{file: "client/errors.go", what: "its constant", within: `(?s)\) isConflict\(.*?\n\}`, of: isAboutAnother, text: func(r refusal) string { return r.constant }},
	{file: "clients/js/src/errors.js", what: "a word", within: `const aboutAnotherItem = .*`, of: isAboutAnother, text: refusal.quoted},
	{file: "clients/python/pqbridge/errors.py", what: "a word", within: `_ABOUT_ANOTHER_ITEM = .*`, of: isAboutAnother, text: refusal.quoted},
}

func isAboutAnother(r refusal) bool { return r.AboutAnother }

// Each reason stands in the table, is that of an operation, comes from the bridge, and each client and page has it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var all []refusal
	var asked []protocol.Reason // by an operation
	for i := range protocol.Ops {
		asked = append(asked, protocol.Ops[i].Reasons()...)
	}
	core, bridge := sources(t, "../fdbpq"), sources(t, "../bridge")
	constants := make(map[protocol.Reason]string)
	eachText(t, "status.go", func(name, value string) {
		reason := protocol.Reason(value)
		if !strings.HasPrefix(name, "Reason") {
			return
		}
		constants[reason] = name
		if !slices.ContainsFunc(protocol.Refusals, func(r protocol.Refusal) bool { return r.Reason == reason }) {
			t.Errorf("protocol/refusals.go lacks a row for %s: the codes that have this reason", name)
		}
		if !slices.Contains(asked, reason) {
			t.Errorf("protocol/ops.go: no operation has %s among its Errors", name)
		}
		if !strings.Contains(bridge, "protocol."+name) && !strings.Contains(core, strconv.Quote(value)) {
			t.Errorf("bridge answers no error with protocol.%s: expected it in Explain of bridge/internal/failure/failure.go, or in fdbpq a word that passes as the reason", name)
		}
	})
	for _, r := range protocol.Refusals {
		if constants[r.Reason] == "" {
			t.Fatalf("protocol/status.go has no constant for the reason %s", r.Reason)
		}
		all = append(all, refusal{r, constants[r.Reason]})
	}
	for i := range ofRefusals {
		ofRefusals[i].check(t, all)
	}
}

// sources are the texts of the Go files of a folder that are no tests.
func sources(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			all.WriteString(read(t, folder+"/"+path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
