package peers_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

// When an owner dies, nobody knows what became of the requests that it was sent. Their clients
// hear that. What waits behind them is served.
func TestOwnerThatDies(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	if err := w.spying.Unsubscribe(); err != nil { // the server would take it for the owner
		t.Fatal(err)
	}
	owner.nc.Close()
	for late := testenv.BeginWait(); ; { // what is on its way until the server notices is lost
		_, err := w.spy.Request(between+".to."+owner.id, nil, 100*time.Millisecond)
		if errors.Is(err, nats.ErrNoResponders) {
			break
		} else if late.Over() {
			t.Fatal("the server does not notice that a bridge has gone")
		}
	}
	w.passes(others[0], "a")
	w.until("the server says that the owner has gone", func() bool { return !others[0].Pass("jobs", pop("b")) })
	for len(others[0].served) > 0 { // behind the first one
		w.serves(others[0], "b")
	}
	if len(others[0].unsure) > 0 {
		t.Error("a client is told at once that nobody knows of its request")
	}
	w.clock.Add(int64(4100 * time.Millisecond))
	w.settled(others...)
	w.unsure(others[0], "a")
	w.idle(others[0])
}

// until returns when something holds.
func (w *owners) until(what string, holds func() bool) {
	w.Helper()
	for late := testenv.BeginWait(); !holds(); {
		if late.Over() {
			w.Fatalf("never: %s", what)
		}
		w.heard()
	}
}

// unsure fails unless a bridge says next that nobody knows of a request.
func (w *owners) unsure(b *bridge, body string) {
	w.Helper()
	select {
	case m := <-b.unsure:
		if string(m.Data) != body {
			w.Fatalf("%s knows nothing of %q, expected that of %q", b.id, m.Data, body)
		}
	case <-testenv.Late():
		w.Fatalf("%s does not say that it knows nothing of %q", b.id, body)
	}
}

// A bridge that says nothing for a second and a half owns nothing.
func TestOwnerThatIsSilent(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	w.clock.Add(int64(1400 * time.Millisecond))
	w.passes(others[0], "x")
	w.serves(owner, "x")
	for _, b := range others {
		b.Announce()
	}
	w.heard()
	w.clock.Add(int64(200 * time.Millisecond))
	if others[0].Pops("jobs") == others[1].Pops("jobs") {
		t.Error("expected one of the two others to own the queue")
	}
	owner.Announce()
	w.heard()
	w.passes(others[0], "y")
	w.serves(owner, "y")
}

// says has a bridge say that it has taken the requests in a message of another one.
func (w *owners) says(b *bridge, to string, sent *nats.Msg) {
	w.Helper()
	if err := b.nc.Publish(between+".answer."+to+"."+b.id, b.Taken(to, sent.Data)); err != nil {
		w.Fatal(err)
	}
}

// A bridge does not end before it knows what became of its requests.
func TestSettleWaitsForAnswers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	w.passesOf(asker, queue, pop("x"))
	sent := w.message(between + ".to.deaf")
	settled := make(chan error, 1)
	go func() { settled <- asker.Settle(t.Context()) }()
	w.waits(settled, "settles before its request is answered")
	w.says(deaf, "asker", sent)
	if err := <-settled; err != nil {
		t.Error(err)
	}
	if passed, _ := asker.Counts(); passed != 1 {
		t.Errorf("%d requests are counted that were passed on, expected 1", passed)
	}
}

// waits fails if a bridge has done by now what it has to wait with.
func (w *owners) waits(done <-chan error, what string) {
	w.Helper()
	select {
	case err := <-done:
		w.Errorf("a bridge %s: %v", what, err)
	case <-time.After(50 * time.Millisecond):
	}
}

// A bridge that starts tells others of itself, again and again, and stops that with Leave.
func TestBridgesTellOfThemselves(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.started("a"), w.started("b")
	words := between + ".word._sys"
	for range 6 {
		w.message(words)
	}
	a.Lost("jobs")
	w.heard()
	if a.Pops("jobs") == b.Pops("jobs") {
		t.Error("expected one of two bridges to own the queue")
	}
	w.leaves(a)
	w.heard()
	if !b.Pops("jobs") {
		t.Error("a bridge that has left owns a queue")
	}
	w.leaves(b)
	w.heard()
	for len(w.said) > 0 {
		<-w.said
	}
	for _, o := range []*bridge{a, b} {
		for range 2 {
			o.Stop()
		}
		if n := o.nc.NumSubscriptions(); n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	}
}

// Forged messages, changed ones and copies have no effect: neither is a request served, nor does
// a bridge publish where somebody else asks it to.
func TestForgedRequests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(3)
	w.passes(others[0], "x")
	w.serves(owner, "x")
	sent := w.message(between + ".to.")
	if bytes.Contains(sent.Data, []byte("pop.min")) || bytes.Contains(sent.Data, []byte("_INBOX")) {
		t.Error("requests are passed on in the clear")
	}
	stranger := w.silent("stranger", "another secret")
	stranger.Lost("jobs")
	heard, err := w.spy.SubscribeSync("spy.>")
	if err != nil {
		t.Fatal(err)
	}
	say := func(subject string, data []byte) {
		t.Helper()
		if err := w.spy.PublishRequest(subject, "spy.here", data); err != nil {
			t.Fatal(err)
		}
		w.idle(append(others, owner, stranger)...)
	}
	say(sent.Subject, sent.Data) // a copy
	say(sent.Subject, stranger.Sealed(owner.id, w.clock.Load(), pop("of another store")))
	for i := range sent.Data {
		forged := slices.Clone(sent.Data)
		forged[i] ^= 1
		say(sent.Subject, forged)
	}
	for n := range len(sent.Data) {
		say(sent.Subject, sent.Data[:n])
	}
	say(sent.Subject, append(slices.Clone(sent.Data), 0))
	say(sent.Subject, bytes.Repeat([]byte{255}, 100))
	for _, other := range []*bridge{others[0], others[1], stranger} {
		say(strings.Replace(sent.Subject, owner.id, other.id, 1), sent.Data)
	}
	w.flush(w.spy)
	if m, err := heard.NextMsg(time.Nanosecond); err == nil {
		t.Errorf("a bridge answers %q on the subject in a forged message", m.Data)
	}
	w.passes(others[0], "y") // and goes on
	w.serves(owner, "y")
}

// A message that is some seconds old is neither taken nor answered.
func TestOldRequests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	sealed := func(age time.Duration) []byte {
		return others[0].Sealed(owner.id, w.clock.Load()-int64(age), pop(age.String()))
	}
	old := sealed(3100 * time.Millisecond)
	for _, data := range [][]byte{old, sealed(2900 * time.Millisecond), old} {
		if err := w.spy.Publish(between+".to."+owner.id, data); err != nil {
			t.Fatal(err)
		}
	}
	w.serves(owner, "2.9s")
	w.idle(owner)
	for len(w.said) > 0 {
		if m := <-w.said; strings.HasPrefix(m.Subject, between+".answer.") && !bytes.Equal(m.Data, owner.Taken(others[0].id, sealed(2900*time.Millisecond))) {
			t.Error("an old message is answered")
		}
	}
}

// A message without an answer is repeated as it was, and not at once. A bridge that has taken
// it answers a repetition again, and serves nothing.
func TestRepeatedRequests(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	w.passesOf(asker, queue, pop("x"))
	sent := w.message(between + ".to.deaf")
	asker.Announce()
	w.clock.Add(int64(600 * time.Millisecond))
	for range 2 {
		asker.Announce()
	}
	w.heard()
	for range 2 {
		if m := w.message(between + ".to.deaf"); !bytes.Equal(m.Data, sent.Data) {
			t.Error("the repetition is another message")
		}
	}
	for len(w.said) > 0 {
		if m := <-w.said; strings.HasPrefix(m.Subject, between+".to.") {
			t.Error("a message is repeated at once, or without end")
		}
	}
	if err := deaf.Listen(); err != nil {
		t.Fatal(err)
	}
	w.flush(deaf.nc)
	asker.Announce()
	w.serves(deaf, "x")
	w.settled(asker)
	answer := w.message(between + ".answer.asker")
	if err := w.spy.Publish(sent.Subject, sent.Data); err != nil {
		t.Fatal(err)
	}
	if again := w.message(between + ".answer.asker"); !bytes.Equal(again.Data, answer.Data) {
		t.Error("a repetition is answered differently")
	}
	w.idle(asker, deaf)
}

// No answer except the answer of the bridge that was asked, to this message, changes anything: requests
// that were sent are not served where they came from, whatever a client says.
func TestForgedAnswers(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	third, stranger := w.silent("third", "secret"), w.silent("stranger", "another secret")
	w.passesOf(asker, queue, pop("before"))
	before := w.message(between + ".to.deaf")
	w.says(deaf, "asker", before)
	w.settled(asker)
	w.passesOf(asker, queue, pop("x"))
	sent := w.message(between + ".to.deaf")
	answer := deaf.Taken("asker", sent.Data)
	forged := [][]byte{
		nil, []byte("-"), []byte("+"), []byte("="), sent.Data, before.Data,
		deaf.Taken("asker", before.Data),          // a copy
		deaf.Taken("third", sent.Data),            // to another bridge
		third.Taken("asker", sent.Data),           // of another bridge
		asker.Taken("deaf", sent.Data),            // the other way
		asker.Taken("asker", sent.Data),           // of itself
		stranger.Taken("asker", sent.Data),        // of another store
		deaf.Word("asker", '=', sent.Data),        // words
		deaf.Word("_sys", '=', sent.Data),         //
		deaf.Word("answer.asker", '+', sent.Data), // of another kind
		append(slices.Clone(answer), 0),
	}
	for i := range answer {
		changed := slices.Clone(answer)
		changed[i] ^= 1
		forged = append(forged, changed, answer[:i])
	}
	for _, subject := range []string{sent.Reply, between + ".answer.asker.third", between + ".answer.asker.x", words + "asker", words + queue} {
		for _, data := range forged {
			if err := w.spy.Publish(subject, data); err != nil {
				t.Fatal(err)
			}
		}
		for _, header := range []nats.Header{{"Status": {"503"}}, {"Status": {"503"}, "Nats-Subject": {sent.Subject}}} {
			if err := w.spy.PublishMsg(&nats.Msg{Subject: subject, Header: header}); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.idle(asker, deaf, third)
	if passed, _ := asker.Counts(); passed != 1 || len(asker.unsure) > 0 {
		t.Errorf("%d requests are counted that were passed on, expected the first; %d are unknown", passed, len(asker.unsure))
	}
	for range 2 { // counts once
		if err := w.spy.Publish(sent.Reply, answer); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(asker)
	w.idle(asker)
	if passed, _ := asker.Counts(); passed != 2 {
		t.Errorf("%d requests are counted that were passed on, expected 2", passed)
	}
}

// A request that is too large for a message is not passed on. Neither is one for a bridge
// that does not answer, when much waits for it; after four seconds that is given up.
func TestOwnerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	if asker.Pass(queue, pop(strings.Repeat("x", 17<<10))) {
		t.Error("a large request is passed on")
	}
	w.passesOf(asker, queue, pop("first"))
	w.message(between + ".to.deaf")
	passed := 0
	for asker.Pass(queue, pop(strings.Repeat("x", 1000))) {
		passed++
	}
	if passed < 900 || passed > 1048 {
		t.Errorf("%d requests of 1,000 bytes are passed on to a bridge that does not answer, expected about a megabyte", passed)
	}
	w.clock.Add(int64(4 * time.Second))
	asker.Announce() // the other one is silent by now
	w.heard()
	if n := len(asker.served); n != passed || len(asker.unsure) > 0 {
		t.Errorf("%d of %d requests are served that were not sent; %d are unknown", n, passed, len(asker.unsure))
	}
	w.clock.Add(1)
	asker.Announce()
	w.unsure(asker, "first")
	if !strings.Contains(asker.log.String(), "did not confirm the requests") {
		t.Errorf("the log has %q", asker.log)
	}
	deaf.Announce()
	w.heard()
	if !asker.Pass(queue, pop("x")) {
		t.Error("what a bridge did not answer takes up room for ever")
	}
	if n := len(asker.served) - passed + len(asker.unsure); n > 0 {
		t.Errorf("%d requests are served, or unknown, that were given up", n)
	}
}

// deaf starts a bridge that takes no requests and answers none, and returns a queue of which
// it is the owner.
func (w *owners) deaf(asker *bridge) (queue string, deaf *bridge) {
	w.Helper()
	deaf = w.bridge("deaf")
	deaf.Stop()
	if _, err := deaf.nc.Subscribe(between+".to.deaf", func(*nats.Msg) {}); err != nil {
		w.Fatal(err)
	}
	w.heard()
	for i := 0; ; i++ {
		if queue = fmt.Sprint("queue-", i); peers.OwnerOf(queue, "asker", "deaf") == "deaf" {
			asker.Lost(queue)
			return queue, deaf
		}
	}
}

// Requests that arrive while one is on its way go in few messages, none of which is too large.
func TestRequestsArePassedTogether(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	asker := w.bridge("asker")
	queue, deaf := w.deaf(asker)
	const n, size = 500, 200
	for range n {
		w.passesOf(asker, queue, pop(strings.Repeat("x", size)))
	}
	w.heard()
	messages := 0
	for got := 0; got < n; messages++ {
		m := w.message(between + ".to.deaf")
		if len(m.Data) > 80<<10 {
			t.Errorf("a message has %d bytes", len(m.Data))
		}
		got += deaf.Opened(m.Data)
		w.says(deaf, "asker", m)
	}
	if messages > 4 {
		t.Errorf("%d requests of %d bytes are passed on in %d messages", n, size, messages)
	}
	w.settled(asker)
}
