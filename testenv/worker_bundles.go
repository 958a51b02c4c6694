package testenv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/history"
)

// maxBundle bounds the bundles of a worker.
const maxBundle = 6

// maxBundled bounds the bytes of a bundle by far less than the server's max_payload, so that
// all items of a bundle fit into one message.
const maxBundled = 512 << 10

// bundles decides whether the next request is for several items.
func (w *Worker) bundles() bool { return w.Random.IntN(4) == 0 && maxBundle*w.Padding < maxBundled }

func (w *Worker) bundleSize() int { return 2 + w.Random.IntN(maxBundle-1) }

// recordBundle records the operations of a bundle's requests, which begin and end together. Operations that take
// place at one moment have the name of the bundle.
func (w *Worker) recordBundle(name string, do func() []history.Operation) {
	call := w.Recorder.Now()
	operations := do()
	answered := w.Recorder.Now()
	for i := range operations {
		o := &operations[i]
		o.Client, o.Call, o.Bundle = w.ID, call, name
		if o.Return == 0 {
			o.Return = answered
		}
	}
	w.Recorder.Add(operations...)
}

// unanswered are operations with an unknown result.
func unanswered(operations []history.Operation) []history.Operation {
	for i := range operations {
		operations[i].Outcome, operations[i].Return = history.Unknown, history.Never
	}
	return operations
}

// pushBundle pushes several items: all of them, or none, or each on its own. A bundle without ids is not repeated.
func (w *Worker) pushBundle() {
	name := w.name()
	pushes := make([]history.Operation, w.bundleSize())
	request := nats.NewMsg("pq." + w.Queue + ".push")
	request.Header.Set("PQ-Bundle", strconv.Itoa(len(pushes)))
	ids := w.Random.IntN(5) // 0: none; 1: ids of items
	if ids > 1 {
		request.Header.Set("Nats-Msg-Id", name)
	}
	together, each := name, w.Random.IntN(2) == 0
	if each {
		together = ""
		request.Header.Set("PQ-Each", "true")
	}
	for i := range pushes {
		o := history.Operation{Kind: history.Push, Item: w.name(), Priority: w.Random.Int64N(urgencies), Key: w.anyKey(), Outcome: history.Done}
		lines := fmt.Sprintf("PQ-Priority: %d\n", o.Priority)
		if o.Key != "" {
			lines += "PQ-Key: " + o.Key + "\n"
		}
		if ids == 1 {
			lines += "Nats-Msg-Id: " + o.Item + "\n"
		}
		payload := o.Item + " " + strings.Repeat("x", w.Padding)
		request.Data = fmt.Appendf(request.Data, "%d %d\n%s%s\n", len(lines), len(payload), lines, payload)
		pushes[i] = o
	}
	w.recordBundle(together, func() []history.Operation {
		var reply *nats.Msg
		if ids == 0 {
			var err error
			if reply, err = w.request(request); err == nil && noResponders(reply) {
				return nil
			} else if err != nil || again(reply) {
				return unanswered(pushes)
			}
		} else {
			var tries int
			reply, tries = w.Repeat(request)
			for i := range pushes {
				pushes[i].Repeated = tries > 1
			}
		}
		if each && bytes.Contains(reply.Data, []byte(`"items":`)) {
			return w.pushedEach(pushes, reply)
		}
		if !w.accepted("push a bundle", reply) {
			return nil
		}
		return pushes
	})
}

// pushedEach are the pushes of a bundle whose items are pushed each on its own. A push that has to be tried again
// has an unknown result: an earlier attempt may have taken effect.
func (w *Worker) pushedEach(pushes []history.Operation, reply *nats.Msg) []history.Operation {
	var answer struct {
		Items []struct {
			Error *struct {
				Code        int
				Description string
			}
		}
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil || len(answer.Items) != len(pushes) {
		w.Errorf("push %d items one by one: %s, %v", len(pushes), reply.Data, err)
		return nil
	}
	for i := range answer.Items {
		e := answer.Items[i].Error
		if e == nil {
			continue
		}
		unanswered(pushes[i : i+1])
		switch e.Code {
		case 506:
			w.Damaged++
		case 429, 503, 504:
		default:
			w.Errorf("push item %d of %d: refused: %+v", i, len(pushes), *e)
		}
	}
	return pushes
}

// lookBundle pops or leases several items, the first ones at one moment.
func (w *Worker) lookBundle(kind history.Kind, lease time.Duration) {
	request, o, once := w.looking(kind, lease)
	n := w.bundleSize()
	request.Header.Set("PQ-Bundle", strconv.Itoa(n))
	all := slices.Repeat([]history.Operation{o}, n)
	w.recordBundle(w.name(), func() []history.Operation {
		var reply *nats.Msg
		tries := 1
		if once {
			var err error
			if reply, err = w.request(request); err == nil && noResponders(reply) {
				return nil
			} else if err != nil || again(reply) {
				return unanswered(all)
			}
		} else {
			reply, tries = w.Repeat(request)
		}
		for i := range all {
			all[i].Repeated = tries > 1
		}
		if reply.Header.Get("PQ-Bundle") == "" {
			w.explain(&all[0], reply)
			switch found := w.found(&all[0], reply); {
			case !found:
				return nil
			case all[0].Outcome == history.Nothing:
				return all[:1]
			}
			return slices.Repeat(all[:1], n) // leases that were given back
		}
		items, err := readBundle(reply)
		if err != nil || len(items) == 0 || len(items) > n {
			w.Errorf("%s a bundle of %d: %d items, %v", kind, n, len(items), err)
			return nil
		}
		for i, item := range items {
			if !IsItem(item) || !w.found(&all[i], item) {
				w.Errorf("%s a bundle: item %d is %v %q", kind, i, item.Header, item.Data)
			}
		}
		if len(items) == n {
			return all
		}
		rest := all[len(items):]
		if kind == history.Lease && tries > 1 { // others of the bundle may have been given back
			for i := range rest {
				if rest[i].Outcome = history.Unknown; lease != fleeting {
					rest[i].Lease = 0
				}
			}
			return all
		}
		rest[0].Outcome = history.Nothing // there was no other
		return all[:len(items)+1]
	})
}

// readBundle reads the items of a bundle.
func readBundle(reply *nats.Msg) (items []*nats.Msg, err error) {
	for rest := reply.Data; len(rest) > 0; {
		sizes, frame, _ := bytes.Cut(rest, []byte("\n"))
		var headers, payload int
		if _, err := fmt.Sscanf(string(sizes), "%d %d", &headers, &payload); err != nil || len(frame) < headers+payload+1 {
			return nil, fmt.Errorf("%q is no frame of %d bytes: %w", sizes, len(frame), err)
		}
		item := &nats.Msg{Header: make(nats.Header), Data: frame[headers : headers+payload]}
		for line := range strings.Lines(string(frame[:headers])) {
			name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
			item.Header.Add(name, value)
		}
		items, rest = append(items, item), frame[headers+payload+1:]
	}
	if said := reply.Header.Get("PQ-Bundle"); said != strconv.Itoa(len(items)) {
		return nil, fmt.Errorf("PQ-Bundle says %s, the message has %d items", said, len(items))
	}
	return items, nil
}

// settleBundle settles several leases, each as a message of its own would.
func (w *Worker) settleBundle() {
	var settled []history.Operation
	var kept []holding
	request := nats.NewMsg("pq." + w.Queue + ".ack.bundle.settle")
	for _, h := range w.held {
		if len(settled) == maxBundle || w.Random.IntN(4) == 0 {
			kept = append(kept, h)
			continue
		}
		o := history.Operation{Kind: []history.Kind{history.Ack, history.Ack, history.Nak, history.Extend}[w.Random.IntN(4)],
			Item: h.item, Key: h.key, Priority: h.priority, Fence: h.fence}
		if o.Kind == history.Extend {
			o.Lease, kept = h.lease, append(kept, h)
		}
		request.Data = fmt.Appendf(request.Data, "%s %s\n", h.ack, settlementWords[o.Kind])
		settled = append(settled, o)
	}
	if len(settled) == 0 {
		return
	}
	w.held = kept
	request.Header.Set("PQ-Bundle", strconv.Itoa(len(settled)))
	w.recordBundle("", func() (known []history.Operation) {
		codes, tries, err := w.settleAll(request)
		if err != nil || len(codes) != len(settled) {
			w.Errorf("settle a bundle of %d: %q, %v", len(settled), codes, err)
			return nil
		}
		for i, o := range settled {
			o.Repeated = tries > 1
			switch codes[i] {
			case "":
				o.Outcome = history.Done
			case "410":
				o.Outcome = history.Nothing
			case "506":
				w.Damaged++
				continue
			default:
				w.Errorf("%s of %s in a bundle: refused: %s", o.Kind, o.Item, codes[i])
				continue
			}
			known = append(known, o)
		}
		return known
	})
}

// settleAll repeats a bundle of settlements until none of them needs another attempt, and
// returns the code of each.
func (w *Worker) settleAll(request *nats.Msg) (codes []string, tries int, err error) {
	for end := time.Now().Add(w.patience()); ; <-time.After(pause) {
		reply, attempts := w.Repeat(request)
		if tries += attempts; reply.Header.Get("Nats-Service-Error-Code") == "506" {
			return slices.Repeat([]string{"506"}, bytes.Count(request.Data, []byte("\n"))), tries, nil
		}
		codes = codes[:0]
		open := false
		for line := range strings.Lines(string(reply.Data)) {
			code, failed := strings.CutPrefix(strings.TrimRight(line, "\n"), "-ERR ")
			if code, _, _ = strings.Cut(code, " "); !failed && code == "+OK" {
				code = ""
			}
			codes = append(codes, code)
			open = open || code == "503" || code == "504" || code == "429" || code == "506" && w.Retries
		}
		switch {
		case !open:
			return codes, tries, nil
		case time.Now().After(end):
			return codes, tries, errors.New("no final answer")
		}
	}
}
