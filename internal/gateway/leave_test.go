package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// A client that goes away while its pop waits gets no item: it stays in the queue.
func TestClientLeavesWhileItWaits(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.make("jobs")
	for _, path := range []string{"/v1/queues/jobs/pop?wait=100s", "/v1/queues/jobs/pop?wait=100s&lease=queue"} {
		ctx, leave := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			answer, err := http.DefaultClient.Do(request)
			if err == nil {
				answer.Body.Close()
			}
			ended <- err
		}()
		s.waiting("jobs", 1)
		leave()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		<-s.pops
		if err := s.wire.Load().nc.FlushTimeout(testenv.Patience()); err != nil { // the server knows that nobody listens
			t.Fatal(err)
		}
		s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
		s.waiting("jobs", 0)
		s.await(path+": the item is there, perhaps back from nobody", func() bool {
			n := s.numbers("jobs")
			return n.Ready == 1 && n.Leased == 0
		})
		s.ok(nil, "POST", "/v1/queues/jobs/purge", "")
	}
}

// deaf is a client that has gone when its answer is written.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// An item whose answer cannot be written goes back to the queue at once, whatever its backoff. With an id the
// client can ask for it again, so it stays leased.
func TestAnswerThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"backoff":["1h"]}`)
	for range 3 {
		s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	}
	pop := func(query string) {
		t.Helper()
		s.ServeHTTP(deaf{httptest.NewRecorder()}, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/queues/jobs/pop"+query, nil))
	}
	pop("?lease=1h&batch=2")
	s.await("the items are back", func() bool { return s.numbers("jobs") == numbers{Ready: 3} })
	pop("?lease=1h")
	s.await("the item is back", func() bool { return s.numbers("jobs") == numbers{Ready: 3} })
	pop("?lease=1h&batch=2&msg_id=a")
	var again struct{ Items []shownItem }
	if s.ok(&again, "POST", "/v1/queues/jobs/pop?lease=1h&batch=2&msg_id=a&repeat=true", ""); len(again.Items) != 2 || s.numbers("jobs") != (numbers{Ready: 1, Leased: 2}) {
		t.Errorf("%+v, %+v", again, s.numbers("jobs"))
	}
}

// left is the context of a client that leaves between the answer of the bridge and its own:
// nothing has ended the request, but the client has gone.
type left struct{ context.Context }

func (left) Done() <-chan struct{} { return nil }
func (left) Err() error            { return context.Canceled }

// A client that has gone gets no answer that could still be written: the item goes back, which does not count against it.
func TestHTTPPollCancelled(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	unread := httptest.NewRecorder()
	s.ServeHTTP(unread, httptest.NewRequestWithContext(left{t.Context()}, http.MethodPost, "/v1/queues/jobs/pop?lease=1h", nil))
	if unread.Body.Len() != 0 {
		t.Errorf("the answer was written: %s", unread.Body)
	}
	s.await("the item is back", func() bool { return s.numbers("jobs") == numbers{Ready: 1} })
	var again shownItem
	if s.ok(&again, "POST", "/v1/queues/jobs/pop?lease=1h", ""); again.Deliveries != 2 || again.Endings != (protocol.Endings{Returns: 1}) || again.Attempts != 0 {
		t.Errorf("%+v, expected the second delivery after a return", again)
	}
}

// Items that are on their way to the gateway when the client leaves go back at once, and not
// when their leases run out. With an id the client can ask for them again, so they stay leased.
func TestItemsThatComeLate(t *testing.T) {
	t.Parallel()
	for query, tc := range map[string]struct {
		answers int64
		want    numbers
	}{
		"batch=3":          {4, numbers{Ready: 3}},
		"":                 {1, numbers{Ready: 3}},
		"batch=3&msg_id=a": {4, numbers{Leased: 3}},
	} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			for range 3 {
				s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
			}
			near := s.wire.Load().nc
			network := s.distant()
			far := s.wire.Load().nc
			ctx, leave := context.WithCancel(t.Context())
			arrive := network.HoldAnswers()
			served := make(chan struct{})
			go func() {
				defer close(served)
				s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/queues/jobs/pop?lease=1h&"+query, nil))
			}()
			// An answer that the server gets behind the end of the subscription is the server's to give back, with an id, too.
			s.await("the answers are on their way", func() bool { return s.delivered(far) == tc.answers })
			leave()
			<-served
			arrive()
			if tc.want.Ready == 0 {
				if err := far.FlushTimeout(testenv.Patience()); err != nil { // all items have come
					t.Fatal(err)
				}
				if err := far.FlushTimeout(testenv.Patience()); err != nil { // and none was sent back
					t.Fatal(err)
				}
			}
			s.await("the items are where they belong", func() bool {
				info, err := near.Request("pq.jobs.info", nil, testenv.Patience())
				var now numbers
				if err == nil {
					err = json.Unmarshal(info.Data, &now)
				}
				if err != nil {
					t.Fatal(err)
				}
				return now == tc.want
			})
		})
	}
}

// delivered is how many messages the server has sent to a connection, read or not.
func (s *site) delivered(nc *nats.Conn) int64 {
	s.Helper()
	id, err := nc.GetClientID()
	if err != nil {
		s.Fatal(err)
	}
	found, err := s.env.NATS.Server().Connz(&server.ConnzOptions{CID: id})
	if err != nil {
		s.Fatal(err)
	}
	return found.Conns[0].OutMsgs
}

// Stop ends what is under way.
func TestStop(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.make("jobs")
	answers := make(chan reply, 2)
	go func() { answers <- s.send("POST", "/v1/queues/jobs/pop?wait=100s", "") }()
	go func() { answers <- s.send("GET", "/v1/watch?path=/v1/queues", "") }()
	s.waiting("jobs", 1)
	s.await("a page is open", func() bool { return s.room.streams.taken() == 1 })
	s.Stop()
	for range 2 {
		if r := <-answers; strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
			s.isRefusal(r, 504, "no answer", "a pop")
		} else if r.code != 200 {
			t.Errorf("%+v", r)
		}
	}
}
