package protocol_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// refusal is a row of the table.
type refusal struct{ protocol.Refusal }

func (r refusal) word() string   { return string(r.Reason) }
func (r refusal) called() string { return fmt.Sprintf("the reason %s of %d", r.Reason, r.Code) }

func ofCode(code int) func(refusal) bool { return func(r refusal) bool { return r.Code == code } }

func (r refusal) plain() string   { return string(r.Reason) }
func (r refusal) inTicks() string { return "`" + string(r.Reason) + "`" }

// betweenStores are the reasons that no client gets.
var betweenStores = func() map[string]string {
	all := make(map[string]string)
	for _, r := range protocol.Refusals {
		if r.BetweenStores {
			all[string(r.Reason)] = "between stores alone"
		}
	}
	return all
}()

// ofRefusals are the places that have something for each reason.
var ofRefusals = []surface[refusal]{
	{file: "docs/protocol/pop.md", what: "a line", within: `(?s)## Nothing there\n.*?\n## `, of: ofCode(protocol.CodeNotFound), text: func(r refusal) string { return "\n- " + r.inTicks() + ":" },
		absent: map[string]string{"pending": "docs/protocol/results.md has it: no pop answers it"}},
	{file: "docs/protocol.md", what: "a word in the table of errors", within: `(?:\| 409 \|.*\n)+`, of: ofCode(protocol.CodeConflict), text: func(r refusal) string { return string(r.Reason) + "`" }},
	{file: "docs/protocol/settle.md", what: "a line", within: `(?s)## The answer\n.*?\n## `, of: ofCode(protocol.CodeLeaseLost), text: func(r refusal) string { return "\n- " + r.inTicks() + ":" }},
	{file: "docs/protocol.md", what: "a word in the table of errors", within: `\| 429 \|.*`, of: ofCode(protocol.CodeBusy), text: refusal.inTicks},

	{file: "clients/js/index.d.ts", what: "a word in the comment of ConflictError", within: `.*\nexport class ConflictError`, of: ofCode(protocol.CodeConflict), text: refusal.inTicks,
		absent: map[string]string{"occupied": "the client has no import", "giver_behind": "between stores alone", "taker_behind": "between stores alone"}},
	{file: "clients/js/index.d.ts", what: "a word in the comment of LeaseLostError", within: `.*\nexport class LeaseLostError`, of: ofCode(protocol.CodeLeaseLost), text: refusal.inTicks},
	{file: "clients/python/pqbridge/errors.py", what: "a word in the text of ConflictError", within: `class ConflictError.*\n.*`, of: ofCode(protocol.CodeConflict), text: refusal.plain, absent: betweenStores},
	{file: "clients/python/pqbridge/errors.py", what: "a word in the text of LeaseLostError", within: `class LeaseLostError.*\n.*`, of: ofCode(protocol.CodeLeaseLost), text: refusal.plain},
}

// aboutAnother are the lists in which the other clients have the reasons about another item, and nothing else.
var aboutAnother = map[string]string{
	"clients/js/src/errors.js":          `\[.*"another_key".*\]`,
	"clients/python/pqbridge/errors.py": `\{.*"another_key".*\}`,
}

// Each reason stands in the table, is that of an operation, and each client and page has it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var all []refusal
	var asked []protocol.Reason // by an operation
	for i := range protocol.Ops {
		asked = append(asked, protocol.Ops[i].Reasons()...)
	}
	for _, r := range protocol.Refusals {
		if !slices.Contains(asked, r.Reason) {
			t.Errorf("protocol/ops.go: no operation has %s among its Errors", r.Reason)
		}
		all = append(all, refusal{r})
	}
	for i := range ofRefusals {
		ofRefusals[i].check(t, all)
	}
	var want []string
	for _, r := range all {
		if r.AboutAnother {
			want = append(want, strconv.Quote(string(r.Reason)))
		}
	}
	for file, pattern := range aboutAnother {
		list := regexp.MustCompile(pattern).FindString(read(t, "../"+file))
		if got := regexp.MustCompile(`"\w+"`).FindAllString(list, -1); !slices.Equal(got, want) {
			t.Errorf("%s: the reasons about another item are %s: expected %s", file, got, want)
		}
	}
}
