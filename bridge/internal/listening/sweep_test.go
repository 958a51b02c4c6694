package listening_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/testenv"
)

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
			found, hidden := s.Sweep([]string{there, gone, plain, own})
			if strings.Join(found, " ") != wantGone || hidden != wantHidden {
				t.Errorf("gone: %v, hidden: %t; expected %s, %t", found, hidden, wantGone, wantHidden)
			}
			for _, reply := range []string{there, plain, own, "_INBOX.worker.three.3"} {
				if s.Sees(reply) == strings.HasPrefix(reply, unseen) {
					t.Errorf("%s is seen: %t", reply, s.Sees(reply))
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
		if s.Sees(there) || s.Sees(plain) {
			t.Error("they are seen before the sweep")
		}
		sweep(gone, false, "none")
		for _, reply := range []string{"_R_.x.y", "_GR_.a.b._INBOX.x", "$GR.a.b"} {
			if s.Sees(reply) {
				t.Errorf("%s is seen", reply)
			}
		}
		// Nothing is learned from a question without an answer.
		a.Stop()
		if interest == nil {
			listen(spy, ">")
			if found, hidden := s.Sweep([]string{there, gone}); hidden || len(found) > 0 || !s.Sees(there) {
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
