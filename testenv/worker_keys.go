package testenv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/history"
)

// next acknowledges an item and leases the next one.
const next = "+NXT"

// Promise configures the worker's queue, and records the promises about keys that follow.
func (w *Worker) Promise(limit int64, order bool) {
	w.Helper()
	body, err := json.Marshal(map[string]any{"key_limit": limit, "key_order": order, "max_deliveries": 0})
	if err != nil {
		w.Fatal(err)
	}
	request := nats.NewMsg("pq." + w.Queue + ".admin.config")
	request.Data = body
	w.record(history.Operation{Kind: history.Configure, KeyLimit: limit, KeyOrder: order}, func(o *history.Operation) bool {
		if reply, _ := w.Repeat(request); reply.Header.Get("Nats-Service-Error-Code") != "" {
			w.Fatalf("configure %s: refused: %v", w.Queue, reply.Header)
		}
		o.Outcome = history.Done
		return true
	})
}

// anyKey is the key of a new item. One item in eight has none.
func (w *Worker) anyKey() string {
	if w.Keys == 0 || w.Random.IntN(8) == 0 {
		return ""
	}
	return fmt.Sprint("key-", w.Random.IntN(w.Keys))
}

func (w *Worker) stepWithKeys() {
	lasting := cmp.Or(w.Lasting, steady)
	switch n := w.Random.IntN(100); {
	case n < 35:
		w.push()
	case n < 38:
		w.look(history.Peek, 0)
	case n < 46 && w.Vanishes:
		w.look(history.Lease, fleeting)
	case n < 66 && len(w.held) < 4:
		w.look(history.Lease, lasting)
	case len(w.held) > 1 && w.bundles():
		w.settleBundle()
	case len(w.held) > 0:
		switch at := w.Random.IntN(len(w.held)); w.Random.IntN(6) {
		case 0:
			w.settle(at, history.Nak)
		case 1:
			w.settle(at, history.Extend)
		case 2, 3:
			w.exchange(at, lasting)
		default:
			w.settle(at, history.Ack)
		}
	default:
		w.push()
	}
}

// exchange acknowledges an item and leases the next one, in one request that takes place
// once.
func (w *Worker) exchange(at int, lease time.Duration) {
	h := w.held[at]
	w.held = append(w.held[:at], w.held[at+1:]...)
	request := nats.NewMsg(h.ack)
	request.Data = []byte(next)
	request.Header.Set("PQ-Lease", lease.String())
	request.Header.Set("Nats-Msg-Id", w.name())
	ack := history.Operation{Kind: history.Ack, Item: h.item, Key: h.key, Priority: h.priority, Fence: h.fence, Outcome: history.Done}
	w.record(history.Operation{Kind: history.Lease, End: history.Min, Lease: lease}, func(o *history.Operation) bool {
		reply, tries := w.Repeat(request)
		ack.Client, ack.Call, ack.Return = o.Client, o.Call, w.Recorder.Now()
		ack.Repeated, o.Repeated, o.Return = tries > 1, tries > 1, ack.Return
		lost := reply.Header.Get("Nats-Service-Error-Code") == "410"
		if lost {
			ack.Outcome = history.Nothing
		}
		w.Recorder.Add(ack)
		if lost && tries == 1 {
			return false // it leased nothing
		}
		w.explain(o, reply)
		return w.found(o, reply)
	})
}

// explain notes the reason why a request that was sent once has found nothing.
func (w *Worker) explain(o *history.Operation, reply *nats.Msg) {
	if !o.Repeated && reply != nil && reply.Header.Get("Status") == "404" {
		o.Reason = reply.Header.Get("PQ-Reason")
	}
}

func (w *Worker) keyFence(reply *nats.Msg) int64 {
	text := reply.Header.Get("PQ-Key-Fence")
	if text == "" {
		return 0
	}
	fence, err := strconv.ParseInt(text, 10, 64)
	if err != nil || fence <= 0 {
		w.Errorf("PQ-Key-Fence: %q, %v", text, err)
	}
	return fence
}

// take takes the first item out of the queue, and returns the answer to the pop.
func (w *Worker) take(wait time.Duration) *nats.Msg {
	reply := w.pop(wait)
	if w.Keys > 0 && IsItem(reply) {
		w.settle(len(w.held)-1, history.Ack)
	}
	return reply
}
