package peers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/testenv"
)

// forged is a client that answers discovery, in virtual time, and a bridge that searches
// for rivals.
type forged struct {
	*testing.T
	server *testenv.Virtual
	nc     *nats.Conn // of the client
	self   *nats.Conn // of the bridge
	rivals *peers.Rivals
	log    strings.Builder
	asked  chan *nats.Msg // questions to single bridges
}

var searching = peers.Identity{ID: "self", Prefix: "pq", StoreID: "a", Started: time.Unix(2, 0)}

func newForged(t *testing.T, options ...nats.Option) *forged {
	f := &forged{T: t, server: testenv.VirtualNATS(t), asked: make(chan *nats.Msg, 1<<12)}
	f.nc, f.self = f.server.Connect(t), f.server.Connect(t, options...)
	f.rivals = peers.NewRivals(f.self, searching, "local:a", slog.New(slog.NewTextHandler(&f.log, nil)))
	return f
}

// answer handles the questions on a subject.
func (f *forged) answer(subject string, handle func(*nats.Msg)) {
	f.Helper()
	if _, err := f.nc.Subscribe(subject, handle); err != nil {
		f.Fatal(err)
	}
	synctest.Wait()
}

// listen keeps the questions to single bridges, without an answer.
func (f *forged) listen() { f.answer("$SRV.INFO.pq.*", func(m *nats.Msg) { f.asked <- m }) }

// info is the answer of a bridge at this NATS server to discovery.
func (f *forged) info(i peers.Identity) []byte {
	f.Helper()
	body, err := json.Marshal(micro.Info{ServiceIdentity: micro.ServiceIdentity{Name: peers.ServiceName, ID: i.ID, Metadata: i.On(f.nc).Metadata()}})
	if err != nil {
		f.Error(err)
	}
	return body
}

// search searches once, which must find nothing, and returns how long it took.
func (f *forged) search() time.Duration {
	f.Helper()
	began := time.Now()
	if err := f.rivals.Refuse(f.Context()); err != nil {
		f.Errorf("found %v", err)
	}
	if n := f.self.NumSubscriptions(); n != 0 {
		f.Errorf("%d subscriptions are left", n)
	}
	return time.Since(began)
}

// pass advances the clock, and returns when the effects are there.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// rival is a rival that does not exist.
func rival(id string) peers.Identity {
	return peers.Identity{ID: id, Prefix: "pq", StoreID: "b", Started: time.Unix(1, 0)}
}

// A bounded number of forged answers is looked into, and logged, each of them once.
func TestForgedAnswersAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t, nats.NoEcho())
		const most = 64
		round := 0
		f.answer("$SRV.INFO.pq", func(m *nats.Msg) {
			round++
			for i := range 3 * most {
				for range 2 {
					_ = m.Respond(f.info(rival(fmt.Sprint("forged-", round, "-", i/(1+round%2)))))
				}
			}
		})
		f.listen()
		for range 3 {
			f.search()
			seen := make(map[string]int)
			for len(f.asked) > 0 {
				m := <-f.asked
				if seen[m.Subject]++; seen[m.Subject] > 4 {
					t.Errorf("asked more than four times on %s", m.Subject)
				}
			}
			if len(seen) == 0 || len(seen) > most {
				t.Errorf("%d bridges were asked, expected up to %d", len(seen), most)
			}
		}
		if n := strings.Count(f.log.String(), "level=WARN"); n != most {
			t.Errorf("%d warnings, expected %d", n, most)
		}
	})
}

// The first challenge can come before the news that a bridge listens for the proof, as it does behind a gateway.
func TestLateInterest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t)
		other := peers.NewRivals(f.nc, rival("other"), "local:b", slog.New(slog.DiscardHandler))
		f.answer("$SRV.INFO.pq", func(m *nats.Msg) { _ = m.Respond(f.info(rival("other"))) })
		asked := 0
		f.answer("$SRV.INFO.pq.*", func(m *nats.Msg) {
			if asked++; asked > 1 {
				other.Prove(m)
			}
		})
		if err := f.rivals.Refuse(t.Context()); err == nil || !strings.Contains(err.Error(), "already serves") {
			t.Errorf("the search says %v", err)
		}
		if asked != 2 {
			t.Errorf("asked %d times, expected 2", asked)
		}
	})
}

// A forged answer that comes again and again is logged once.
func TestForgedAnswerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t, nats.NoEcho())
		f.answer("$SRV.INFO.pq", func(m *nats.Msg) { _ = m.Respond(f.info(rival("forged"))) })
		for range 3 {
			f.search()
		}
		if n := strings.Count(f.log.String(), "level=WARN"); n != 1 {
			t.Errorf("%d warnings, expected one:\n%s", n, &f.log)
		}
	})
}

// What is answered neither prolongs a search nor makes it fail.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	endless := func(f *forged, reply string, body []byte) {
		go func() {
			for range 600 {
				<-time.After(100 * time.Millisecond)
				_ = f.nc.Publish(reply, body)
			}
		}()
	}
	sibling := peers.Identity{ID: "sibling", Prefix: "pq", StoreID: "a"}
	for _, tc := range []struct {
		what   string
		first  func(f *forged, m *nats.Msg)
		second func(f *forged, m *nats.Msg) // nil: nobody hears the question
		most   time.Duration
		warned int
	}{
		{"answers without end", func(f *forged, m *nats.Msg) { endless(f, m.Reply, f.info(sibling)) }, func(f *forged, m *nats.Msg) { f.Errorf("asked on %s", m.Subject) }, 6 * time.Second, 0},
		{"a bridge on the same store", func(f *forged, m *nats.Msg) { _ = m.Respond(f.info(sibling)) }, func(f *forged, m *nats.Msg) { f.Errorf("asked on %s", m.Subject) }, time.Second, 0},
		{"one that has gone", func(f *forged, m *nats.Msg) { _ = m.Respond(f.info(rival("gone"))) }, nil, time.Second, 1},
		{"one that is silent", func(f *forged, m *nats.Msg) { _ = m.Respond(f.info(rival("silent"))) }, func(*forged, *nats.Msg) {}, 3 * time.Second, 1},
		{"one that talks without end", func(f *forged, m *nats.Msg) { _ = m.Respond(f.info(rival("talks"))) },
			func(f *forged, m *nats.Msg) { endless(f, m.Reply, []byte("hello")) }, 3 * time.Second, 1},
		{"answers to no question", func(f *forged, m *nats.Msg) { _ = m.Respond(f.info(rival("odd"))) }, func(f *forged, m *nats.Msg) {
			for _, at := range []string{"1", "-1", "999", "x"} {
				_ = f.nc.Publish(strings.TrimSuffix(m.Reply, "0")+at, nil)
			}
		}, 3 * time.Second, 1},
		{"names that no subject can have", func(f *forged, m *nats.Msg) {
			for _, id := range []string{"", "a b", "a.b", ">", "a\r\nPUB x 0\r\n"} {
				_ = m.Respond(f.info(rival(id)))
			}
			_ = m.Respond([]byte("not JSON"))
		}, func(f *forged, m *nats.Msg) { f.Errorf("asked on %s", m.Subject) }, time.Second, 0},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newForged(t, nats.NoEcho())
				f.answer("$SRV.INFO.pq", func(m *nats.Msg) { tc.first(f, m) })
				if tc.second != nil {
					f.answer("$SRV.INFO.pq.*", func(m *nats.Msg) { tc.second(f, m) })
				}
				if took := f.search(); took > tc.most {
					t.Errorf("the search took %s, expected %s at most", took, tc.most)
				}
				if n := strings.Count(f.log.String(), "level=WARN"); n != tc.warned {
					t.Errorf("%d warnings, expected %d:\n%s", n, tc.warned, &f.log)
				}
				<-time.After(time.Minute) // the endless ones end
			})
		})
	}
}

// A client that listens to all inboxes, and says there in the server's place that nobody receives a
// question, hides no rival.
func TestForgedSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t, nats.NoEcho())
		said := 0
		f.answer("_INBOX.>", func(m *nats.Msg) {
			if m.Header.Get("Status") != "" {
				return
			}
			for _, subject := range []string{m.Subject, m.Subject + ".0", m.Subject + ".1"} {
				_ = f.nc.PublishMsg(&nats.Msg{Subject: subject, Header: nats.Header{"Status": {"503"}}})
				said++
			}
		})
		elder := f.server.Connect(t)
		other := peers.NewRivals(elder, rival("elder"), "", slog.New(slog.DiscardHandler))
		for subject, handle := range map[string]func(*nats.Msg){
			"$SRV.INFO.pq": func(m *nats.Msg) {
				_ = m.Respond(f.info(peers.Identity{ID: "sibling", Prefix: "app", StoreID: "c"}))
				<-time.After(100 * time.Millisecond)
				_ = m.Respond(f.info(rival("elder")))
			},
			"$SRV.INFO.pq.elder": func(m *nats.Msg) {
				<-time.After(100 * time.Millisecond)
				other.Prove(m)
				_ = m.Respond(f.info(rival("elder")))
			},
		} {
			if _, err := elder.Subscribe(subject, handle); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := f.rivals.Refuse(t.Context()); err == nil || !strings.Contains(err.Error(), "bridge elder ") {
			t.Errorf("did not find the other one: %v", err)
		}
		if synctest.Wait(); said == 0 {
			t.Error("nothing is forged")
		}
	})
}

// A search that is cut short is an error: who was not found may be there.
func TestSearchCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t, nats.NoEcho())
		f.answer("$SRV.INFO.pq", func(*nats.Msg) {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.rivals.Refuse(ctx); err == nil {
			t.Error("a search without an answer found no rival before its time")
		}
	})
}

// A bridge is no rival of its own, also on a connection that receives what it sends.
// Each search has a nonce of its own, and names a rival without a warning.
func TestFindsOthersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t)
		var nonces []string
		prove := func(nc *nats.Conn, i peers.Identity) {
			t.Helper()
			own := peers.NewRivals(nc, i, "", slog.New(slog.DiscardHandler))
			for _, subject := range []string{"$SRV.INFO.pq", "$SRV.INFO.pq." + i.ID} {
				if _, err := nc.Subscribe(subject, func(m *nats.Msg) {
					if own.Prove(m); len(m.Data) > 0 {
						var question struct{ Nonce string }
						if err := json.Unmarshal(m.Data, &question); err != nil {
							t.Error(err)
						}
						nonces = append(nonces, question.Nonce)
					}
					_ = m.Respond(f.info(i))
				}); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		prove(f.self, searching)
		if err := f.rivals.Refuse(t.Context()); err != nil {
			t.Errorf("found itself: %v", err)
		}
		prove(f.nc, rival("other"))
		for range 2 {
			if err := f.rivals.Refuse(t.Context()); err == nil || !strings.Contains(err.Error(), "bridge other ") {
				t.Errorf("did not find the other one: %v", err)
			}
		}
		synctest.Wait()
		if len(nonces) != 2 || nonces[0] == nonces[1] || f.log.Len() > 0 {
			t.Errorf("nonces %q, logged %s", nonces, &f.log)
		}
	})
}

// A bridge looks for others as long as it serves, at least every 30 s. One with a shared
// store does not look.
func TestLooks(t *testing.T) {
	t.Parallel()
	for name, started := range map[string]time.Time{"own store": time.Unix(2, 0), "shared store": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newForged(t, nats.NoEcho())
				var looks []time.Time
				f.answer("$SRV.INFO.pq", func(*nats.Msg) { looks = append(looks, time.Now()) })
				self := searching
				self.Started = started
				log := slog.New(slog.DiscardHandler)
				s := peers.NewStandby(peers.NewRivals(f.self, self, "local:a", log), peers.Service{}, log)
				s.Start()
				last := time.Now()
				pass(time.Hour)
				if started.IsZero() {
					s.Stop()
					if len(looks) > 0 {
						t.Errorf("looked %d times", len(looks))
					}
					return
				}
				for _, look := range append(looks, time.Now()) {
					if pause := look.Sub(last); pause > 35*time.Second {
						t.Errorf("did not look for %s", pause)
					}
					last = look
				}
				s.Stop()
				if n := f.self.NumSubscriptions(); n != 0 {
					t.Errorf("%d subscriptions are left", n)
				}
			})
		})
	}
}

// A bridge on standby serves again soon after the other one has fallen silent, but not
// because its own searches fail.
func TestServesAgainSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t, nats.NoEcho())
		other := peers.NewRivals(f.nc, rival("other"), "", slog.New(slog.DiscardHandler))
		var proves atomic.Bool
		proves.Store(true)
		looks := make(chan time.Time, 1<<12)
		f.answer("$SRV.INFO.pq", func(m *nats.Msg) {
			looks <- time.Now()
			_ = m.Respond(f.info(rival("other")))
		})
		f.answer("$SRV.INFO.pq.other", func(m *nats.Msg) {
			if proves.Load() {
				other.Prove(m)
			}
		})
		s := peers.NewStandby(f.rivals, peers.Service{
			Pause:  func(context.Context) error { return nil },
			Resume: func() error { return nil },
		}, slog.New(slog.DiscardHandler))
		s.Start()
		<-time.After(10 * time.Minute)
		if s.Reason() == nil {
			t.Fatal("not on standby beside a bridge that started earlier")
		}
		proves.Store(false)
		synctest.Wait()
		for len(looks) > 0 {
			<-looks
		}
		<-time.After(45 * time.Second)
		synctest.Wait()
		if s.Reason() != nil {
			t.Errorf("still on standby: %v", s.Reason())
		}
		s.Stop()
		if len(looks) < 2 {
			t.Fatalf("looked %d times", len(looks))
		}
		if missed := <-looks; (<-looks).Sub(missed) > 10*time.Second {
			t.Error("after a look that missed the other one, the next was late")
		}

		proves.Store(true)
		s.Look(t.Context())
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 {
			s.Look(over)
		}
		if s.Reason() == nil {
			t.Error("serves again because searches fail")
		}
	})
}

// The end of the search waits until the service has paused.
func TestStopWaitsForTheLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newForged(t, nats.NoEcho())
		other := peers.NewRivals(f.nc, rival("other"), "", slog.New(slog.DiscardHandler))
		f.answer("$SRV.INFO.pq", func(m *nats.Msg) { _ = m.Respond(f.info(rival("other"))) })
		f.answer("$SRV.INFO.pq.other", other.Prove)
		pausing, paused := make(chan struct{}), make(chan struct{})
		s := peers.NewStandby(f.rivals, peers.Service{Pause: func(context.Context) error {
			close(pausing)
			<-paused
			return nil
		}}, slog.New(slog.DiscardHandler))
		s.Start()
		<-pausing
		stopped := make(chan struct{})
		go func() {
			s.Stop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stopped while the service pauses")
		default:
		}
		close(paused)
		<-stopped
	})
}
