package pops

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
)

// errGone ends the wait of a pop whose client has gone. It is counted, not sent.
var errGone = &failure.Failure{Code: 408, Text: "the client stopped listening for its answer"}

func set(names []string) map[string]bool {
	is := make(map[string]bool, len(names))
	for _, name := range names {
		is[name] = true
	}
	return is
}

// mustAsk reports whether the transaction asks about the client of a pop for which it has items. It does if the pop
// has waited and nobody has asked before, or if the items would be lost with the client: if it pops them for good,
// has no id to repeat the pop, and is no link, which holds its items. If asking costs nothing, it also asks about a
// pop that has not waited.
func (t *transaction) mustAsk(r *pop) bool {
	if t.attempt.silent || r.sure || r.peeks || r.gives != nil || len(r.found) == 0 {
		return false
	}
	waited, loses := r.place != nil || r.waited, r.leased == 0 && r.ask.ID == ""
	return waited && !r.asked || loses && (waited || t.sight.Local())
}

// ask asks about the clients of pops that the transaction is about to serve. All queues that share the transaction ask
// before any of them waits for the answer.
func (t *transaction) ask() {
	var replies []string
	for _, r := range t.todo[:t.served] {
		if t.mustAsk(r) {
			r.sure = true
			replies = append(replies, r.Msg.Reply)
		}
	}
	if len(replies) > 0 {
		t.question = t.sight.Ask(replies)
	}
}

// Check makes the transaction run again without items for clients that have gone.
func (t *transaction) Check() bool {
	if t.question == nil {
		return true
	}
	gone, _ := t.question.Gone()
	t.question = nil
	nobody := set(gone)
	for _, r := range t.todo[:t.served] {
		r.gone = r.gone || nobody[r.Msg.Reply]
	}
	return len(gone) == 0
}

// unasked forgets a question whose answer the transaction does not need.
func (t *transaction) unasked() {
	t.question.Close()
	t.question = nil
}
