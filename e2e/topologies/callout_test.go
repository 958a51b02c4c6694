package topologies_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// callout is a service that says who may do what.
type callout struct {
	key nkeys.KeyPair              // of the issuer
	may map[string]*jwt.UserClaims // by the name of a user, whose password is its name
	nc  *nats.Conn
}

// answer answers the question of a server.
func (c *callout) answer(m *nats.Msg) error {
	ask, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil {
		return err
	}
	answer := jwt.NewAuthorizationResponseClaims(ask.UserNkey)
	answer.Audience = ask.Server.ID
	if of := c.may[ask.ConnectOptions.Username]; of == nil || ask.ConnectOptions.Password != of.Name {
		answer.Error = "no such user"
	} else {
		user := *of
		user.Subject = ask.UserNkey
		if answer.Jwt, err = user.Encode(c.key); err != nil {
			return err
		}
	}
	text, err := answer.Encode(c.key)
	if err != nil {
		return err
	}
	return m.Respond([]byte(text))
}

// printedClaims is a user of an account, with the permissions that pq prints.
func printedClaims(t *testing.T, account, name string, args ...string) *jwt.UserClaims {
	t.Helper()
	text, err := pqd.Command(t, testenv.Build(t, "cmd/pq"), append([]string{"permissions", "--jwt", "--as", name}, args...)...).Output()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	user := jwt.NewUserClaims(name)
	user.Name, user.Audience = name, account
	if err := json.Unmarshal(text, &user.Permissions); err != nil || len(user.Pub.Allow) == 0 || len(user.Sub.Allow) == 0 {
		t.Fatalf("%q: %v of %s", args, err, text)
	}
	return user
}

// withCallout runs a server with a file of the page, and a service that it asks for users.
func withCallout(t *testing.T, may map[string]*jwt.UserClaims) *server.Server {
	t.Helper()
	c := &callout{may: may}
	var public string
	c.key, public = newKey(t, nkeys.CreateAccount)
	srv := natsServer(t, file(t, "callout.conf", "$AUTH_ISSUER", public))
	var err error
	if c.nc, err = nats.Connect(srv.ClientURL(), nats.UserInfo("auth", passwords["AUTH_PASSWORD"])); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.nc.Close)
	_, err = c.nc.Subscribe("$SYS.REQ.USER.AUTH", func(m *nats.Msg) {
		if err := c.answer(m); err != nil {
			t.Errorf("the callout: %v", err)
		}
	})
	if err == nil {
		err = c.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return srv
}

// asker is a client that notices what the server denies.
type asker struct {
	*testing.T
	*nats.Conn
	denied chan string
}

func newAsker(t *testing.T, url, user string) asker {
	t.Helper()
	a := asker{T: t, denied: make(chan string, 16)}
	var err error
	a.Conn, err = nats.Connect(url, nats.UserInfo(user, user), nats.CustomInboxPrefix("_INBOX."+user),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			a.denied <- err.Error()
		}))
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	t.Cleanup(a.Close)
	return a
}

// may reports whether a request is answered, and not denied.
func (a asker) may(subject string) bool {
	a.Helper()
	inbox, came := a.NewInbox(), make(chan *nats.Msg, 1)
	sub, err := a.ChanSubscribe(inbox, came)
	if err == nil {
		err = a.PublishRequest(subject, inbox, nil)
	}
	if err != nil {
		a.Fatal(err)
	}
	defer func() {
		if err := sub.Unsubscribe(); err != nil {
			a.Error(err)
		}
	}()
	select {
	case <-came:
		return true
	case why := <-a.denied:
		if !strings.Contains(strings.ToLower(why), strings.ToLower(`"`+subject+`"`)) {
			a.Fatalf("%s: denied was %s", subject, why)
		}
		return false
	case <-testenv.Late():
		a.Fatalf("%s: neither answered nor denied", subject)
		return false
	}
}

// Users of an auth callout, with the permissions that pq prints, do what their roles are for and nothing else.
func TestAuthCallout(t *testing.T) {
	t.Parallel()
	reads := []subjects.Verb{subjects.Info, subjects.List, subjects.Get, subjects.Result, subjects.PeekMin, subjects.PeekMax,
		subjects.Keys, subjects.Key, subjects.Schedules, subjects.Schedule, subjects.Sources, subjects.Links}
	changes := []subjects.Verb{subjects.Cancel, subjects.Remove, subjects.Move, subjects.Requeue, subjects.Revoke}
	for v := subjects.AdminConfig; v < subjects.Event; v++ {
		changes = append(changes, v)
	}
	type verbs map[string][]subjects.Verb // of each queue
	roles := map[string]verbs{
		"producer": {"jobs": {subjects.Push}},
		"importer": {"jobs": {subjects.Import}},
		"consumer": {"jobs": {subjects.PopMin, subjects.PopMax, subjects.PeekMin, subjects.PeekMax, subjects.Ack}},
		"requeuer": {"jobs": {subjects.Info}, "jobs-dead": {subjects.List, subjects.Get, subjects.Requeue, subjects.AdminRequeue}},
		"taker":    {"jobs": {subjects.Link}},
		"caller":   {"jobs": {subjects.Result, subjects.Cancel}},
		"viewer":   {"jobs": reads},
		"admin":    {"jobs": slices.Concat(reads, changes)},
	}
	may := make(map[string]*jwt.UserClaims)
	for role := range roles {
		may[role] = printedClaims(t, "PQ", role, role, "jobs")
	}
	srv := withCallout(t, may)
	p := beside(t, srv)
	grammar, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	for role, verbs := range roles {
		a := newAsker(t, srv.ClientURL(), role)
		for _, queue := range []string{"jobs", "jobs-dead", "other"} {
			for verb, subject := range testenv.Requests(t, grammar, queue) {
				if got, want := a.may(subject), slices.Contains(verbs[queue], verb); got != want {
					t.Errorf("%s asks %s: %t, expected %t", role, subject, got, want)
				}
			}
		}
	}
	for _, user := range []nats.Option{nats.UserInfo("consumer", "wrong"), nats.UserInfo("nobody", "nobody"), nats.Name("without a login")} {
		if nc, err := nats.Connect(srv.ClientURL(), user); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("a wrong login: %v, %v", nc, err)
		}
	}
	p.Stop(t)
}
