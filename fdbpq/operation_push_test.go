package fdbpq_test

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func pushOf(queue string, items []pushItem) operation {
	return operation{
		name: fmt.Sprintf("push %s %v", queue, items),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			var news []fdbpq.NewItem
			for _, item := range items {
				n := fdbpq.NewItem{
					Payload: []byte(item.payload), Headers: []byte(item.headers), Priority: item.priority, HasPriority: item.hasPriority,
					Delay: item.delay, TTL: item.ttl, MsgID: item.msgID, ResultTTL: item.resultTTL, Cost: item.cost,
				}
				if item.notBefore != 0 {
					n.NotBefore = p.wall().Add(item.notBefore)
				}
				n.Key = item.key
				n.Unique, n.OnConflict, n.UniqueUntilLeased = item.unique, item.onConflict, item.untilLeased
				if l := item.handOver; l != nil {
					lease, err := fdbpq.ParseLease(l.queue, []byte(l.token))
					if err != nil {
						return outcome{}, err
					}
					lease.Spent = l.spent.of()
					n.HandOver = &lease
				}
				news = append(news, n)
			}
			pushed, err := p.queue(queue).Push(tx, news...)
			if err != nil {
				return outcome{}, err
			}
			return pushedOf(queue, pushed), nil
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.push(queue, at, items, got) },
	}
}

func pushedOf(queue string, pushed []fdbpq.Pushed) (out outcome) {
	for _, one := range pushed {
		v := pushedView{queue: queue, Seq: one.Seq, Priority: one.Priority, Duplicate: one.Duplicate, Evicted: one.Evicted, Err: kindOf(one.Err)}
		if one.Err == nil {
			v.ID = one.ID.String()
		}
		out.Pushed = append(out.Pushed, v)
		out.Events = append(out.Events, eventsOf(one.Events)...)
	}
	return out
}

func (p pushItem) String() string {
	s := fmt.Sprintf("{%s", digest(p.payload))
	for _, field := range []struct {
		name  string
		value any
		set   bool
	}{
		{"headers", digest(p.headers), p.headers != ""}, {"priority", p.priority, p.hasPriority}, {"delay", p.delay, p.delay != 0},
		{"not before", p.notBefore, p.notBefore != 0}, {"ttl", p.ttl, p.ttl != 0}, {"id", p.msgID, p.msgID != ""},
		{"hand over", p.handOver, p.handOver != nil}, {"unique", p.unique, p.unique != ""},
		{"key", p.key, p.key != ""},
		{"on conflict", p.onConflict, p.onConflict != ""}, {"until", "leased", p.untilLeased},
		{"result", p.resultTTL, p.resultTTL != 0}, {"cost", p.cost, p.cost != 0},
	} {
		if field.set {
			s += fmt.Sprintf(" %s %v", field.name, field.value)
		}
	}
	return s + "}"
}
