package peers_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

// asker is a bridge that asks others, and answers them.
type asker struct {
	*peers.Survey
	nc    *nats.Conn
	asked atomic.Int64 // questions that it has answered
}

// surveys are subjects of questions and of answers.
const surveys = "_INBOX." + storeID + ".survey"

// asker starts a bridge whose process has a name in the store.
func (w *owners) asker(id, process, secret string) *asker {
	w.Helper()
	a := &asker{nc: w.server.Connect(w)}
	store := peers.Store{Secret: []byte(secret), Time: func() time.Duration { return time.Duration(w.clock.Load()) }}
	self := peers.Identity{ID: id, Prefix: "pq", StoreID: storeID}
	a.Survey = peers.NewSurvey(a.nc, self, process, store, slog.New(slog.DiscardHandler), func(question []byte) []byte {
		a.asked.Add(1)
		return append([]byte(process+" on "), question...)
	})
	if err := a.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(a.Stop)
	w.flush(a.nc)
	return a
}

// settle returns when each of them has received what the spy has sent, and what the others said about it.
func (w *owners) settle(all ...*asker) {
	w.Helper()
	for range 2 { // an answer follows a question
		w.flush(w.spy)
		for _, a := range all {
			w.flush(a.nc)
			done := make(chan struct{})
			if err := a.nc.Barrier(func() { close(done) }); err != nil {
				w.Fatal(err)
			}
			<-done
			w.flush(a.nc)
		}
	}
}

// question is what a bridge has got for an answer so far.
type question struct {
	end     func()
	answers [][]byte
	silent  int
	ended   chan struct{}
}

// asks has a bridge ask, until end is called or all have answered.
func (a *asker) asks(ctx context.Context, what string, of ...string) *question {
	ctx, cancel := context.WithCancel(ctx)
	q := &question{end: cancel, ended: make(chan struct{})}
	go func() {
		defer close(q.ended)
		q.answers, q.silent = a.Ask(ctx, []byte(what), of)
	}()
	return q
}

// said is what came of a question.
func (q *question) said() (answers string, silent int) {
	q.end()
	<-q.ended
	var texts []string
	for _, answer := range q.answers {
		texts = append(texts, string(answer))
	}
	slices.Sort(texts)
	return strings.Join(texts, ", "), q.silent
}

// send publishes messages on a subject.
func (w *owners) send(subject string, all ...[]byte) {
	w.Helper()
	for _, data := range all {
		if err := w.spy.Publish(subject, data); err != nil {
			w.Fatal(err)
		}
	}
}

// changed are all messages that differ from one by a bit, by their length, or by what follows.
func changed(data []byte) (all [][]byte) {
	for i := range data {
		for bit := range 8 {
			other := slices.Clone(data)
			other[i] ^= 1 << bit
			all = append(all, other)
		}
		all = append(all, data[:i])
	}
	return append(all, append(slices.Clone(data), 0), append(slices.Clone(data), data...), make([]byte, 1<<16))
}

// Who may publish to inboxes sees what bridges say to each other, and may send whatever it likes. It makes no answer of a process
// that has given none, and a bridge answers no question that no other one has asked.
func TestForgedSurvey(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.asker("a", "o", "secret"), w.asker("b", "p", "secret")
	stranger := w.asker("b", "q", "another secret")
	all := []*asker{a, b, stranger}
	before := a.asks(t.Context(), "mails", "p")
	<-before.ended
	old := w.message(surveys + ".a")

	// One bit is between p, which answers, and q, which does not.
	q := a.asks(t.Context(), "jobs", "p", "q")
	question, answer := w.message(surveys), w.message(surveys+".a")
	for name, forged := range map[string][][]byte{
		"changed answers":             changed(answer.Data),
		"copies":                      {answer.Data, answer.Data},
		"an old answer":               {old.Data},
		"the question":                {question.Data},
		"nothing":                     {nil, {}},
		"an endless id":               {append(make([]byte, 8), append([]byte{255}, make([]byte, 300)...)...)},
		"a request that is passed on": {w.silent("b", "secret").Sealed("a", w.clock.Load(), &nats.Msg{Subject: "q"})},
	} {
		w.send(surveys+".a", forged...)
		w.settle(all...)
		if n := a.Open(); n != 1 {
			t.Fatalf("%s: %d questions wait, expected the one", name, n)
		}
	}
	if answers, silent := q.said(); answers != "p on jobs" || silent != 1 {
		t.Errorf("answers %q, and %d silent: expected that of p alone", answers, silent)
	}
	if n := stranger.asked.Load(); n != 0 {
		t.Errorf("a bridge of another store has answered %d questions", n)
	}

	answered := b.asked.Load()
	w.send(surveys, changed(question.Data)...)
	w.send(surveys, question.Data, answer.Data, old.Data)
	w.settle(all...)
	if n := b.asked.Load() - answered; n != 0 || answered != 2 {
		t.Errorf("%d questions are answered, and %d that nobody has asked", answered, n)
	}
	if a.Heard() > 1 || b.Heard() > 1 || a.Open() != 0 {
		t.Errorf("%d and %d bridges are remembered, and %d questions: expected those that there are", a.Heard(), b.Heard(), a.Open())
	}
}

// An answer counts for the question that it is about, and only of a process that was asked, once. Others may ask
// at the same time.
func TestSurveyAnswers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.asker("a", "o", "secret"), w.asker("b", "p", "secret")
	all := []*asker{a, b, w.asker("c", "p", "secret"), w.asker("d", "r", "secret"), w.asker("e", "e", "another secret")}
	var open []*question
	for i := range 20 {
		open = append(open, a.asks(t.Context(), fmt.Sprint("queue-", i), "p", "away"), b.asks(t.Context(), fmt.Sprint("queue-", i), "o", "p", "e"))
	}
	for asked := 0; asked < len(open); {
		if w.message(surveys).Subject == surveys {
			asked++
		}
	}
	w.settle(all...)
	for i := range 20 {
		if answers, silent := open[2*i].said(); answers != fmt.Sprint("p on queue-", i) || silent != 1 {
			t.Errorf("queue-%d: a has %q, and %d silent", i, answers, silent)
		}
		// Its own question is none, but another bridge of its process answers it.
		if answers, silent := open[2*i+1].said(); answers != fmt.Sprintf("o on queue-%d, p on queue-%d", i, i) || silent != 1 {
			t.Errorf("queue-%d: b has %q, and %d silent", i, answers, silent)
		}
	}
	if a.Open() != 0 || b.Open() != 0 {
		t.Errorf("%d and %d questions wait, and nobody waits for them", a.Open(), b.Open())
	}
}

// A question of long ago, or of the future, is a copy.
func TestSurveyOfAnotherTime(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a := w.asker("a", "o", "secret")
	w.clock.Add(int64(time.Minute))
	future := a.asks(t.Context(), "jobs", "p")
	question := w.message(surveys)
	future.said()
	for _, ago := range []time.Duration{-11 * time.Second, 11 * time.Second} {
		b := w.asker("b", "p", "secret")
		w.clock.Store(int64(time.Hour + time.Minute + ago))
		w.send(surveys, question.Data)
		w.settle(a, b)
		if n := b.asked.Load(); n != 0 {
			t.Errorf("a question of %s is answered", ago)
		}
		b.Stop()
	}
}

// An answer is for the bridge that has asked, also where another one has asked at the same time.
func TestSurveyAnswerOfAnother(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.asker("a", "o", "secret"), w.asker("b", "p", "secret")
	first := a.asks(t.Context(), "jobs", "p")
	<-first.ended
	answer := w.message(surveys + ".a")
	b.Stop()
	other := w.asker("c", "r", "secret")                // has said nothing yet
	second := other.asks(t.Context(), "jobs", "p", "r") // its first question, as that of a
	w.message(surveys)                                  // it is asked
	w.settle(a, other)
	w.send(surveys+".c", answer.Data)
	w.settle(a, other)
	if answers, silent := second.said(); answers != "" || silent != 2 {
		t.Errorf("answers %q, and %d silent: expected none of those to another bridge, or of its own", answers, silent)
	}
}

// Nobody waits again for a process that was silent, until it answers, or some seconds later. It counts as silent meanwhile.
func TestSurveyOfSilentProcesses(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.asker("a", "o", "secret"), w.asker("b", "p", "secret")
	ends := func(q *question, want string, silent int) {
		t.Helper()
		select {
		case <-q.ended:
		case <-testenv.Late():
			t.Fatal("a question waits for a process that was silent")
		}
		if answers, n := q.said(); answers != want || n != silent {
			t.Errorf("answers %q, and %d silent: expected %q, and %d", answers, n, want, silent)
		}
	}
	waits := func(what string, of ...string) {
		t.Helper()
		w.settle(a, b)
		for len(w.said) > 0 {
			<-w.said
		}
		q := a.asks(t.Context(), what, of...)
		w.message(surveys) // it is asked
		w.settle(a, b)
		select {
		case <-q.ended:
			t.Errorf("a question does not wait for one of %v", of)
		default:
		}
		q.said()
	}
	waits("1", "away", "p")
	ends(a.asks(t.Context(), "2", "away", "p"), "p on 2", 1)
	ends(a.asks(t.Context(), "3", "away"), "", 1)
	waits("4", "away", "away too")
	if n := a.Quiet(); n != 2 {
		t.Errorf("nobody waits for %d processes, expected 2", n)
	}
	c := w.asker("c", "away", "secret")
	ends(a.asks(t.Context(), "5", "p"), "p on 5", 0) // which it hears, too
	w.settle(a, b, c)
	c.Stop()
	waits("6", "away")
	w.clock.Add(int64(4 * time.Second))
	ends(a.asks(t.Context(), "7", "away"), "", 1)
	w.clock.Add(int64(time.Second))
	waits("8", "away")
	if n := a.Quiet(); n != 1 {
		t.Errorf("nobody waits for %d processes, expected the last one", n)
	}
}
