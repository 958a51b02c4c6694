package peers_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
)

const words = between + ".word."

// say publishes a word, and returns when all bridges have received it.
func (w *owners) say(queue string, word []byte) {
	w.Helper()
	if err := w.spy.Publish(words+queue, word); err != nil {
		w.Fatal(err)
	}
	w.heard()
}

// owns fails unless a bridge pops the queue jobs for all, or does not.
func (w *owners) owns(b *bridge, want bool, after string) {
	w.Helper()
	if got := b.Pops("jobs"); got != want {
		w.Fatalf("after %s %s pops the queue for all: %v", after, b.id, got)
	}
}

// A word that no bridge on the store has said just now has no effect: a bridge that is not there
// would get requests, and one that is there none.
func TestForgedWords(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a, b := w.bridge("a"), w.bridge("b")
	here := w.message(words + "_sys") // of a; b has not heard it
	a.Lost("jobs")
	contest := w.message(words + "jobs")
	w.heard()
	w.owns(b, true, "a contest with nobody")

	strangers := []*bridge{w.silent("stranger", "another secret"), w.silent(strings.Repeat("x", 65), "secret")}
	for i := range 50 { // among so many, one would own the queue
		strangers = append(strangers, w.silent(fmt.Sprint("stranger-", i), "another secret"))
	}
	for _, s := range strangers {
		s.Announce()
	}
	w.heard()
	w.owns(b, true, "words of other stores and of an endless id")
	for i := range here.Data {
		forged := slices.Clone(here.Data)
		forged[i] ^= 1
		w.say("_sys", forged)
	}
	for n := range len(here.Data) {
		w.say("_sys", here.Data[:n])
	}
	w.say("_sys", append(slices.Clone(here.Data), 'x'))
	w.say("_sys", make([]byte, 1<<16))
	w.owns(b, true, "changed words")

	for _, queue := range []string{"mail", "_sys"} {
		w.say(queue, contest.Data)
	}
	if a.Pops("mail") || b.Pops("mail") {
		t.Error("a word about one queue has an effect on another")
	}
}

// Bridges whose messages have another form are not heard, so nothing is passed on to them.
func TestWordsOfAnotherForm(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	a := w.bridge("a")
	a.Lost("jobs")
	sealed := func(label string, i int) []byte {
		key := hmac.New(sha256.New, []byte("secret"))
		key.Write([]byte(label))
		body := binary.BigEndian.AppendUint64([]byte{'+'}, uint64(w.clock.Load()))
		body = append(body, fmt.Sprint("other-", i)...)
		mac := hmac.New(sha256.New, key.Sum(nil))
		mac.Write(append([]byte("\x04_sys"), body...))
		return append(mac.Sum(nil)[:16], body...)
	}
	for i := range 20 { // among so many, one would own the queue
		w.say("_sys", sealed("words of bridges", i))
		w.say("_sys", sealed("3 words of bridges", i))
	}
	w.owns(a, true, "words of another form")
	for i := range 20 {
		w.say("_sys", sealed("2 words of bridges", i))
	}
	w.owns(a, false, "words of its form")
}

// A word counts once, and for ten seconds of store time: a bridge that has gone does not come
// back by a copy of what it has said, and one that is there does not go.
func TestCopiedWords(t *testing.T) {
	t.Parallel()
	w := newOwners(t)
	owner, others := w.several(2)
	var said []*nats.Msg
	owner.Announce()
	w.leaves(owner)
	w.heard()
	for len(w.said) > 0 {
		said = append(said, <-w.said)
	}
	w.owns(others[0], true, "the end of the owner")
	copies := func() {
		t.Helper()
		for _, m := range said {
			if strings.HasPrefix(m.Subject, words) {
				w.say(strings.TrimPrefix(m.Subject, words), m.Data)
			}
		}
	}
	copies()
	w.owns(others[0], true, "copies of what the owner said")
	late := w.bridge("late") // has heard none of it
	w.clock.Add(int64(11 * time.Second))
	late.Lost("jobs")
	copies()
	w.owns(late, true, "old words")
	w.clock.Add(-int64(30 * time.Second))
	late.Lost("jobs")
	copies()
	w.owns(late, true, "words of the future")
}

// A bounded number of bridges is remembered, and new ones are heard when old ones have
// gone.
func TestManyBridges(t *testing.T) {
	t.Parallel()
	m := peers.NewMemory()
	for i := range 1000 {
		m.Hears(fmt.Sprint(i), time.Hour, time.Hour)
	}
	if n := m.Len(); n != 256 {
		t.Errorf("%d bridges are remembered, expected 256", n)
	}
	if m.Hears("new", time.Hour, time.Hour) {
		t.Error("a bridge beyond those that can be remembered is heard")
	}
	if later := time.Hour + 11*time.Second; !m.Hears("new", later, later) || m.Len() != 1 {
		t.Errorf("%d bridges are remembered, expected the new one alone", m.Len())
	}
	if at := time.Hour + 11*time.Second; m.Hears("new", at, at) || !m.Hears("new", at+1, at) {
		t.Error("expected words in the order of their times alone")
	}
}

// So many bridges are members, and silent ones make room.
func TestManyMembers(t *testing.T) {
	t.Parallel()
	m := peers.NewMembers()
	for i := range 1000 {
		m.Add(fmt.Sprint(i), time.Hour)
	}
	if n := m.Len(); n != 256 {
		t.Errorf("%d bridges are members, expected 256", n)
	}
	m.Add("1", time.Hour+time.Second)
	if m.Add("new", time.Hour+1600*time.Millisecond); m.Len() != 2 {
		t.Errorf("%d bridges are members, expected the one that was heard last and the new one", m.Len())
	}
}
