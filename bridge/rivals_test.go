package bridge_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// guarded is a server with a user for the bridge of each prefix, which has the
// permissions of a bridge and no others, and with other users.
func guarded(t *testing.T, others map[string]subjects.Permissions, prefixes ...string) *testenv.Server {
	t.Helper()
	user := func(name string, p subjects.Permissions) *server.User {
		return &server.User{Username: name, Password: name, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: p.Publish},
			Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}}
	}
	return testenv.NATS(t, func(o *server.Options) {
		for _, prefix := range prefixes {
			grammar, err := subjects.New(prefix)
			if err != nil {
				t.Fatal(err)
			}
			o.Users = append(o.Users, user(prefix, grammar.Bridge()))
		}
		for name, p := range others {
			o.Users = append(o.Users, user(name, p))
		}
	})
}

// under starts a bridge with a store of its own, as the user of its prefix.
func under(t *testing.T, srv *testenv.Server, prefix string, log diary) (*solo, error) {
	t.Helper()
	s := &solo{store: testenv.Store(t), diary: log}
	options := append(bridge.ConnectOptions(slog.New(log)), nats.UserInfo(prefix, prefix), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		t.Errorf("the bridge of %s: %v", prefix, err)
	}))
	s.nc = srv.Connect(t, options...)
	var err error
	s.bridge, err = bridge.Start(t.Context(), s.nc, s.store, bridge.Options{Prefix: prefix, Exclusive: true, Logger: slog.New(log)})
	if err == nil {
		t.Cleanup(func() { s.drain(t) })
	}
	return s, err
}

// With a bridge's permissions and no others, a bridge proves to another one that it
// serves the same prefix, or that one prefix lies within the other.
func TestRivalsProveThemselves(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		first, second string
		rivals        bool
	}{
		{"pq", "pq", true},
		{"pq", "pq.jobs", true},
		{"pq.jobs", "pq", true},
		{"pq", "pq.jobs.eu.west", true},
		{"pq.jobs.eu.west", "pq", true},
		{"pq.jobs", "pq.mail", false},
	} {
		t.Run(tc.second+" beside "+tc.first, func(t *testing.T) {
			t.Parallel()
			prefixes := []string{tc.first, tc.second}
			if tc.first == tc.second {
				prefixes = prefixes[:1]
			}
			srv := guarded(t, nil, prefixes...)
			first, err := under(t, srv, tc.first, newDiary())
			if err != nil {
				t.Fatal(err)
			}
			_, err = under(t, srv, tc.second, newDiary())
			if refused := err != nil; refused != tc.rivals {
				t.Fatalf("starting the second one: %v", err)
			}
			if tc.rivals && !strings.Contains(err.Error(), tc.first) {
				t.Errorf("the error does not name the other prefix: %v", err)
			}
			if err := first.bridge.Ready(); err != nil {
				t.Error(err)
			}
		})
	}
}

// forger answers discovery as if it were a bridge on another store that started long ago,
// with these prefixes. It sends each question to asks. It may publish and hear more than
// any role, except events.
func forger(t *testing.T, srv *testenv.Server, prefixes ...string) (asked <-chan *nats.Msg) {
	t.Helper()
	nc := srv.Connect(t, nats.UserInfo("forger", "forger"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("the forger: %v", err)
		}
	}))
	questions := make(chan *nats.Msg, 1<<10)
	answer := func(m *nats.Msg) {
		var question struct{ Nonce string }
		_ = json.Unmarshal(m.Data, &question) // the first one has no body
		for i, prefix := range prefixes {
			identity := micro.ServiceIdentity{Name: "pq", ID: "forged" + string(rune('a'+i)), Version: "1.0.0", Metadata: map[string]string{
				"prefix": prefix, "store_id": "another", "started": "2001-01-01T00:00:00Z", "server_id": nc.ConnectedServerId(),
			}}
			body, err := json.Marshal(map[string]any{
				"type": "io.nats.micro.v1.info_response", "name": identity.Name, "id": identity.ID, "version": identity.Version, "metadata": identity.Metadata,
				"nonce": question.Nonce, "prefix": prefix, "store_id": "another", "started": "2001-01-01T00:00:00Z",
			})
			if err != nil {
				t.Error(err)
			}
			_ = m.Respond(body)
			if question.Nonce != "" {
				for _, subject := range []string{"pq._sys.event.bridge", prefix + "._sys.event.bridge", m.Reply + ".0"} {
					_ = nc.Publish(subject, body)
				}
			}
		}
		questions <- m
	}
	for _, subject := range []string{"$SRV.INFO.pq", "$SRV.INFO.pq.*"} {
		if _, err := nc.Subscribe(subject, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	return questions
}

// Forged answers of a user who may not publish events neither prevent the start of a
// bridge nor put one on standby.
func TestForgedRivals(t *testing.T) {
	nightly.Only(t, "TestProofs believes no forged proof")
	t.Parallel()
	prefixes := []string{"pq", "pq.jobs", "pq.>", "", "pq pq", "pq.jobs.eu"}
	srv := guarded(t, map[string]subjects.Permissions{"forger": {
		Publish:   []string{"_INBOX.>", "$SRV.>", "pq.jobs.push", "pq.jobs.pop.*", "pq.jobs.ack.*.*"},
		Subscribe: []string{"_INBOX.>", "$SRV.>", "pq.*.event.*"},
	}}, "pq")
	log := newDiary()
	serving, err := under(t, srv, "pq", log)
	if err != nil {
		t.Fatal(err)
	}
	asked := forger(t, srv, prefixes...)
	log.await(t, "ignored a rival bridge that gave no proof")
	// The next question comes when the bridge has handled the last answers.
	for len(asked) > 0 {
		<-asked
	}
	up := serving.nc.StatusChanged(nats.CONNECTED)
	if err := serving.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	await(t, up, "the bridge connects again")
	for searched := false; !searched; {
		select {
		case m := <-asked:
			searched = len(m.Data) == 0
		case <-testenv.Late():
			t.Fatal("the bridge does not look for others")
		}
	}
	if err := serving.bridge.Ready(); err != nil {
		t.Errorf("the bridge does not serve because of a forged answer: %v", err)
	}
	serving.drain(t)

	log = newDiary()
	if _, err := under(t, srv, "pq", log); err != nil {
		t.Errorf("a bridge does not start because of a forged answer: %v", err)
	}
	log.await(t, "ignored a rival bridge that gave no proof")
}

// A proof counts for the question that asked for it only: a client gains nothing by
// letting a bridge prove itself.
func TestProofIsForOneQuestion(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := object[micro.Ping](c, "$SRV.PING.pq", "").ID
	proofs := c.hear("pq.>")
	for _, malformed := range []string{`{"prefix":"pq.a b","nonce":"n"}`, `{"prefix":"pq.*","nonce":"n"}`, "x", `{}`, `{"prefix":"pq"}`, `{"nonce":"n"}`, `{"prefix":"pq.>","nonce":"n"}`, `{"prefix":"other","nonce":"n"}`,
		`{"prefix":"pq.a.b","nonce":"n"}`, `{"prefix":"pq","nonce":"` + strings.Repeat("n", 65) + `"}`, `{"prefix":"pq","nonce":"n"` + strings.Repeat(" ", 600) + `}`} {
		c.ask("$SRV.INFO.pq."+id, malformed)
	}
	c.ask("$SRV.INFO.pq", `{"prefix":"pq","nonce":"for all"}`)
	c.ask("$SRV.INFO.pq."+id, `{"prefix":"pq","nonce":"mine"}`)
	var proof struct {
		Type, Nonce, ID, Prefix string
		StoreID                 string `json:"store_id"`
	}
	decode(t, c.next(proofs).Data, &proof)
	if proof.Type != "io.pq.v1.event.bridge" || proof.Nonce != "mine" || proof.ID != id || proof.Prefix != "pq" || proof.StoreID != c.env.Store.ID() {
		t.Errorf("%+v", proof)
	}
}

// A third bridge does not answer proofs between two bridges as requests.
func TestProofsOfOthersAreNoRequests(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, subject := range []string{"pq._sys.event.bridge", "pq.jobs._sys.event.bridge", "pq.jobs.event.bridge"} {
		if err := c.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	c.push("pq.jobs.push", "x") // comes behind them
	for key, n := range c.metrics() {
		if strings.Contains(key, "code=400") && n > 0 {
			t.Errorf("%s is %v", key, n)
		}
	}
	c.refused(c.ask("pq._sys.event.bridge", ""), 400)
}
