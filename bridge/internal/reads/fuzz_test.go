package reads

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// A page that was asked for begins at its first entry or later, and has a bound.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`{"limit":100,"after":"FQEVAgE","state":"ready","bodies":true}`))
	f.Add([]byte(`{"limit":0}`))
	f.Add([]byte(`{"offset":-1,"limit":9223372036854775808}`))
	f.Add([]byte(`{"prefix":"jobs","limit":1e3}`))
	w, err := codec.New("pq", nil, func() int64 { return protocol.MaxPayload })
	if err != nil {
		f.Fatal(err)
	}
	w.Limit.Refresh()
	f.Fuzz(func(t *testing.T, body []byte) {
		read := func(r desk.Work, v subjects.Verb) bool {
			r.Head().Prepare(r, new(request.Verb), subjects.Subject{Queue: "jobs", Verb: v}, &nats.Msg{Data: body})
			return r.Read(w) == nil
		}
		if l := new(list); read(l, subjects.List) && (l.page.Limit < 1 || l.page.Limit > fdbpq.MaxBatch) {
			t.Errorf("list %q: %d items", body, l.page.Limit)
		}
		if q := new(queues); read(q, subjects.SysList) && (q.limit < 1 || q.limit > fdbpq.MaxBatch || q.offset != nil && *q.offset < 0) {
			t.Errorf("list of queues %q: %+v", body, q)
		}
	})
}
