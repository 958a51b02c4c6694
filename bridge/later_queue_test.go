package bridge_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
	"github.com/pqbridge/pqbridge/protocol"
)

// A bridge that cannot serve a queue, because a later program has changed its state, lists it, says why, and serves all others.
func TestQueueOfALaterProgram(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, queue := range []string{"a", "b", "c"} {
		c.push("pq."+queue+".push", "x")
		c.ask("pq."+queue+".admin.config", `{"max_length":9}`)
	}
	key := []byte("\x02q\x00\x02b\x00")
	var known []byte
	write := func(value func() []byte) {
		t.Helper()
		session := c.env.Store.Session()
		defer session.Release()
		err := session.Update(t.Context(), func(tx kv.Tx) (err error) {
			if known == nil {
				if known, err = tx.Get(key); err != nil {
					return err
				}
			}
			tx.Set(key, value())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(func() []byte {
		_, rest, err := tuple.ConsumeInt(known)
		if err != nil {
			t.Fatal(err)
		}
		return append(tuple.AppendInt(nil, 99), rest...)
	})
	defer write(func() []byte { return known })

	for body, want := range map[string][]string{"": {"a", "b", "c"}, `{"prefix":"b"}`: {"b"}} {
		if list := object[protocol.QueuesPage](c, "pq._sys.list", body).Queues; !slices.Equal(list, want) {
			t.Errorf("queues %s: %q, expected %q", body, list, want)
		}
	}
	for _, verb := range []string{"push", "pop.min", "info", "admin.purge"} {
		const why = "queue state has format 99"
		if m := c.refused(c.ask("pq.b."+verb, ""), 500, ""); !strings.Contains(m.Header.Get("Nats-Service-Error"), why) {
			t.Errorf("%s: %q, expected %q", verb, m.Header.Get("Nats-Service-Error"), why)
		}
	}
	for _, queue := range []string{"a", "c"} {
		if m := c.pop("pq."+queue+".pop.min", ""); string(m.Data) != "x" {
			t.Errorf("queue %s has %q", queue, m.Data)
		}
	}
	families, err := c.registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	for _, family := range families {
		if family.GetName() != "pq_queue_bytes" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "queue" {
					counted = append(counted, label.GetValue())
				}
			}
		}
	}
	if slices.Sort(counted); !slices.Equal(counted, []string{"a", "c"}) {
		t.Errorf("the metrics are of the queues %q", counted)
	}
}
