package listening_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// clientsAt are clients at a queue, by their reply subjects.
func clientsAt(queue string, replies ...string) (all []listening.Client) {
	for _, reply := range replies {
		all = append(all, listening.Client{Queue: queue, Reply: reply})
	}
	return all
}

func sees(s *listening.Sight, queue, reply string) bool {
	return s.Sees(listening.Client{Queue: queue, Reply: reply})
}

// A sweep finds out where somebody listens to everything, and that nobody does any more.
func TestSight(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	for _, interest := range []listening.Interest{nil, srv.Interest} {
		a := listening.NewAsker(srv.Connect(t), interest, slog.New(slog.DiscardHandler))
		defer a.Stop()
		a.SetPatience(testenv.Most)
		s := listening.NewSight(a)
		nc, spy := srv.Connect(t), srv.Connect(t)
		there, gone, plain, own := "_INBOX.worker.one.1", "_INBOX.worker.two.2", nats.NewInbox(), "answers"
		listen := func(nc *nats.Conn, subject string) *nats.Subscription {
			t.Helper()
			sub, err := nc.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			return sub
		}
		sweep := func(wantGone string, wantHidden bool, unseen string) {
			t.Helper()
			found, hidden := s.Sweep(clientsAt("jobs", there, gone, plain, own))
			if strings.Join(found, " ") != wantGone || hidden != wantHidden {
				t.Errorf("gone: %v, hidden: %t; expected %s, %t", found, hidden, wantGone, wantHidden)
			}
			for _, reply := range []string{there, plain, own, "_INBOX.worker.three.3"} {
				if sees(s, "jobs", reply) == strings.HasPrefix(reply, unseen) {
					t.Errorf("%s is seen: %t", reply, sees(s, "jobs", reply))
				}
			}
		}
		listen(nc, "_INBOX.worker.one.*")
		listen(nc, plain)
		listen(nc, own) // the only one of its kind
		sweep(gone, false, "none")
		sub := listen(spy, "_INBOX.worker.>")
		sweep("", true, "_INBOX.worker")
		sweep("", false, "_INBOX.worker")
		all := listen(spy, ">")
		sweep("", true, "_INBOX")
		for _, end := range []*nats.Subscription{sub, all} {
			if err := end.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
		}
		if err := spy.Flush(); err != nil {
			t.Fatal(err)
		}
		if sees(s, "jobs", there) || sees(s, "jobs", plain) {
			t.Error("they are seen before the sweep")
		}
		sweep(gone, false, "none")
		for _, reply := range []string{"_R_.x.y", "_GR_.a.b._INBOX.x", "$GR.a.b"} {
			if sees(s, "jobs", reply) {
				t.Errorf("%s is seen", reply)
			}
		}
		// Nothing is learned from a question without an answer.
		a.Stop()
		if interest == nil {
			listen(spy, ">")
			if found, hidden := s.Sweep(clientsAt("jobs", there, gone)); hidden || len(found) > 0 || !sees(s, "jobs", there) {
				t.Errorf("without an answer: %v, hidden: %t", found, hidden)
			}
		}
		for _, nc := range []*nats.Conn{nc, spy} {
			clients := srv.Server().NumClients()
			nc.Close()
			testenv.Await(t, "the connection has ended", func() bool { return srv.Server().NumClients() < clients })
		}
	}
}

// Each pop of a client has a reply subject of another kind, and the client listens to all of them. The questions of a sweep
// are as many as ever, and the clients of other queues are seen, or not seen, and found to have gone as without the flood.
func TestSightInAFloodOfKinds(t *testing.T) {
	t.Parallel()
	var asked int
	covered := []string{"_INBOX.flood.", "_INBOX.spied."}
	a := listening.NewAsker(testenv.NATS(t).Connect(t), func(_ uint64, subjects []string) (gone []string, known bool) {
		asked = len(subjects)
		for _, subject := range subjects {
			if subject != "_INBOX.there.a.1" && !slices.ContainsFunc(covered, func(prefix string) bool { return strings.HasPrefix(subject, prefix) }) {
				gone = append(gone, subject)
			}
		}
		return gone, true
	}, slog.New(slog.DiscardHandler))
	s := listening.NewSight(a)
	now := time.Now()
	s.SetNow(func() time.Time { return now })
	kinds := 0
	flood := func() (replies []string) {
		for range 1000 {
			kinds++
			replies = append(replies, fmt.Sprint("_INBOX.flood.", kinds, ".a.1"))
		}
		return replies
	}
	for second := range 100 {
		now = now.Add(time.Second)
		clients := append(clientsAt("flooded", flood()...), clientsAt("jobs", "_INBOX.there.a.1", "_INBOX.gone.a.1", "_INBOX.spied.a.1")...)
		gone, hidden := s.Sweep(clients)
		if strings.Join(gone, " ") != "_INBOX.gone.a.1" {
			t.Fatalf("second %d: %d have gone, %.3q", second, len(gone), gone)
		}
		most := 400
		if second > 0 && second < 60 { // nothing is forgotten, and the queue has its share
			most = 150
		}
		if asked > len(clients)+most {
			t.Fatalf("second %d: %d questions about %d clients", second, asked, len(clients))
		}
		if second == 0 && !hidden {
			t.Error("the first sweep has found no client that is not seen")
		}
		if sees(s, "jobs", "_INBOX.spied.b.2") || !sees(s, "jobs", "_INBOX.there.b.2") || !sees(s, "jobs", "_INBOX.new.b.2") {
			t.Fatalf("second %d: expected that only those are not seen at whose inboxes somebody listens", second)
		}
	}
	if sees(s, "flooded", "_INBOX.new.b.2") {
		t.Error("the queue that has its share of kinds has further ones that are seen")
	}
	remembered := func(least, most int) {
		t.Helper()
		asked = 0
		if s.Sweep(nil); asked < least || asked > most {
			t.Errorf("%d kinds are remembered, expected %d to %d", asked, least, most)
		}
	}
	remembered(1, 200)
	// Kinds that no client has any more are forgotten, and the others are not.
	for range 3 {
		now = now.Add(time.Minute - time.Second)
		sees(s, "jobs", "_INBOX.spied.b.2")
	}
	remembered(1, 1)
	for range 3 {
		now = now.Add(time.Minute - time.Second)
		s.Sweep(clientsAt("jobs", "_INBOX.spied.c.3"))
		remembered(1, 1)
	}
	if sees(s, "jobs", "_INBOX.spied.b.2") || !sees(s, "flooded", "_INBOX.new.b.2") {
		t.Error("expected the kind that is used to be remembered, and no other")
	}
	now = now.Add(time.Minute + time.Second)
	remembered(0, 0)
}

// A reply subject of many tokens leads to no question that is longer than the server takes. Its client is not seen.
func TestSightOfManyTokens(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	a := listening.NewAsker(nc, nil, slog.New(slog.DiscardHandler))
	a.SetPatience(testenv.Most)
	defer a.Stop()
	s := listening.NewSight(a)
	long := "_INBOX." + strings.Repeat("n", 22) + strings.Repeat(".x", (subjects.MaxReply-29)/2)
	first := strings.Repeat("k", 900)
	for _, reply := range []string{long, first + "." + long[7:7+22+15*2], first + "." + long[7:7+22+16*2]} {
		gone, _ := s.Sweep(clientsAt("jobs", reply, "_INBOX.gone.1"))
		if strings.Join(gone, " ") != reply+" _INBOX.gone.1" || !nc.IsConnected() {
			t.Fatalf("%.50s…: %d have gone; connected: %t, %v", reply, len(gone), nc.IsConnected(), nc.LastError())
		}
	}
	if sees(s, "jobs", long) {
		t.Error("a client is seen at whose kind of inboxes the bridge cannot ask")
	}
}
