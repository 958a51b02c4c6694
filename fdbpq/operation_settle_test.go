package fdbpq_test

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func settleOf(l heldLease, what settlement, d time.Duration, reason string) operation {
	return operation{
		settles: true,
		name:    fmt.Sprintf("%s %s/%s fence %d (%v %s), spent %v", what, l.queue, l.id, l.fence, d, digest(reason), l.spent),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			lease, err := fdbpq.ParseLease(l.queue, []byte(l.token))
			if err != nil {
				return outcome{}, err
			}
			lease.Spent = l.spent.of()
			q := p.queue(l.queue)
			var settled fdbpq.Settled
			switch what {
			case settleAck:
				settled, err = q.Ack(tx, lease)
			case settleAckWith:
				settled, err = q.AckWith(tx, lease, []byte(reason))
			case settleNack:
				settled, err = q.Nack(tx, lease, fdbpq.Nack{Delay: &d, Reason: reason})
			case settleNackPlain:
				settled, err = q.Nack(tx, lease, fdbpq.Nack{Reason: reason})
			case settleReturn:
				settled, err = q.Return(tx, lease)
			case settleBack:
				settled, err = q.GiveBack(tx, lease, reason)
			case settleExtend:
				settled, err = q.Extend(tx, lease, d)
			case settleReport:
				settled, err = q.Report(tx, lease, d, reason)
			case settleTerminate:
				settled, err = q.Terminate(tx, lease, reason)
			}
			out := outcome{Events: eventsOf(settled.Events), Kept: string(settled.Result), Reserved: settled.Reserved}
			if settled.Dropped {
				out.Kept = string(fdbpq.KeptDropped)
			}
			if l := settled.Lease; l != nil {
				out.Items = []itemView{{ID: l.ID().String(), Fence: l.Fence, KeyFence: l.KeyFence, Expires: l.Expires.UnixNano(), queue: l.Queue, token: string(l.Token())}}
			}
			return out, err
		},
		expect: using(l.queue, func(m *model, at moment, _ outcome) outcome { return m.settle(l, at, what, d, reason) }),
	}
}
