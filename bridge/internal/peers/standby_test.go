package peers_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

// elder is a bridge with another store on the same prefix that started earlier.
type elder struct {
	*nats.Conn
	proves atomic.Bool
	subs   []*nats.Subscription
}

func newElder(t *testing.T, srv *testenv.Server) *elder {
	e := &elder{Conn: srv.Connect(t)}
	e.proves.Store(true)
	self := peers.Identity{ID: "elder", Prefix: "pq", StoreID: "b", Started: time.Unix(1, 0)}
	rivals := peers.NewRivals(e.Conn, self, "local:b", slog.New(slog.DiscardHandler))
	for _, subject := range []string{"$SRV.INFO.pq", "$SRV.INFO.pq.elder"} {
		sub, err := e.Subscribe(subject, func(m *nats.Msg) {
			if e.proves.Load() {
				rivals.Prove(m)
			}
			body, err := json.Marshal(micro.Info{ServiceIdentity: micro.ServiceIdentity{Name: peers.ServiceName, ID: self.ID, Metadata: self.Metadata()}})
			if err != nil {
				t.Error(err)
			}
			_ = m.Respond(body)
		})
		if err != nil {
			t.Fatal(err)
		}
		e.subs = append(e.subs, sub)
	}
	if err := e.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	return e
}

// leave returns when the server knows that the bridge has unsubscribed.
func (e *elder) leave(t *testing.T) {
	for _, sub := range e.subs {
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
}

// A bridge on standby serves again when the server reports that the other one has gone,
// or when two searches in a row miss it. One search may miss a slow bridge.
func TestServesAgain(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{true, false} {
		srv := testenv.NATS(t)
		other := newElder(t, srv)
		self := peers.Identity{ID: "self", Prefix: "pq", StoreID: "a", Started: time.Unix(2, 0)}
		log := slog.New(slog.DiscardHandler)
		paused := false
		s := peers.NewStandby(peers.NewRivals(srv.Connect(t, nats.NoEcho()), self, "local:a", log), peers.Service{
			Pause:  func(context.Context) error { paused = true; return nil },
			Resume: func() error { paused = false; return nil },
		}, log)
		look := func(standby bool, when string) {
			t.Helper()
			if s.Look(t.Context()); paused != standby || (s.Reason() != nil) != standby {
				t.Fatalf("%s: paused %v, because %v; expected %v", when, paused, s.Reason(), standby)
			}
		}
		look(true, "beside an older bridge")
		look(true, "still beside it")
		if gone {
			other.leave(t)
			look(false, "alone")
			continue
		}
		other.proves.Store(false)
		look(true, "after one look that missed it")
		other.proves.Store(true)
		look(true, "after it was found again")
		other.proves.Store(false)
		look(true, "after another look that missed it")
		look(false, "after two looks that missed it")
	}
}

// The bridge that started first serves on beside a later one, and logs it once. On
// standby, a bridge pauses its service once, and stays there while it cannot resume it.
func TestWhoGoesOnStandby(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t)
	other := newElder(t, srv) // started at second 1
	log := &strings.Builder{}
	pauses, resumes, unable := 0, 0, errors.New("not now")
	standby := func(id string, started time.Time) *peers.Standby {
		self := peers.Identity{ID: id, Prefix: "pq", StoreID: "a", Started: started}
		logger := slog.New(slog.NewTextHandler(log, nil))
		return peers.NewStandby(peers.NewRivals(srv.Connect(t, nats.NoEcho()), self, "local:a", logger), peers.Service{
			Pause:  func(context.Context) error { pauses++; return nil },
			Resume: func() error { resumes++; return unable },
		}, logger)
	}
	// A look may miss the other one on a busy machine.
	until := func(s *peers.Standby, what string, is func() bool) {
		t.Helper()
		for deadline := testenv.BeginWait(); !is(); s.Look(t.Context()) {
			if deadline.Over() {
				t.Fatalf("%s: not so after %s; logged\n%s", what, testenv.Patience(), log)
			}
		}
	}
	// Of two that started at the same moment, the ids decide.
	first := standby("a", time.Unix(1, 0))
	until(first, "sees the later one", func() bool { return strings.Contains(log.String(), "level=ERROR") })
	first.Look(t.Context())
	if first.Reason() != nil || pauses > 0 {
		t.Fatalf("the one that started first is on standby: %v", first.Reason())
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors, expected one:\n%s", n, log)
	}
	second := standby("self", time.Unix(1, 0))
	until(second, "on standby beside one with a smaller id", func() bool { return second.Reason() != nil })
	pauses = 0
	later := standby("a", time.Unix(2, 0))
	until(later, "on standby", func() bool { return later.Reason() != nil })
	later.Look(t.Context())
	if later.Reason() == nil || pauses != 1 {
		t.Errorf("on standby because of %v, paused %d times", later.Reason(), pauses)
	}
	other.leave(t)
	until(later, "tries to serve", func() bool { return resumes > 0 })
	if later.Reason() == nil {
		t.Error("it says that it serves, and could not resume its service")
	}
	unable = nil
	until(later, "serves", func() bool { return later.Reason() == nil })
}
