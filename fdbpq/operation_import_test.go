package fdbpq_test

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// importItem is an item of an import; times are from now, by the clock of the
// importing process.
type importItem struct {
	id                 string // "": it gets one
	priority           int64
	payload, headers   string
	notBefore, expires time.Duration // 0: none
	deliveries, fence  int64
	endings            fdbpq.Endings
	dead               fdbpq.DeadLetter
	unique             string
	untilLeased        bool
	key                string
	keyFence           int64
	attempts           []modelAttempt
	progress           string
	resultTTL          time.Duration
	cost               int64
}

// importedView is what became of one.
type importedView struct {
	ID    string
	Seq   int64
	Found []itemView
	Err   string
}

func importOf(queue string, items []importItem) operation {
	return operation{
		name: fmt.Sprintf("import %s %v", queue, items),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			var all []fdbpq.Import
			for _, item := range items {
				one := fdbpq.Import{
					Priority: item.priority, Payload: []byte(item.payload), Headers: []byte(item.headers),
					Pushed: wallStart, Deliveries: item.deliveries, Endings: item.endings, Fence: item.fence, Dead: &item.dead,
					Unique: item.unique, UniqueUntilLeased: item.untilLeased, Key: item.key, KeyFence: item.keyFence,
					ResultTTL: item.resultTTL, Cost: item.cost, Progress: item.progress,
				}
				if item.id != "" {
					one.ID = parseID(item.id)
				}
				for _, a := range item.attempts {
					one.Attempts = append(one.Attempts, fdbpq.Attempt{
						N: a.N, Start: time.Unix(0, a.Start), End: time.Unix(0, a.End), Holder: a.Holder, Outcome: fdbpq.Outcome(a.Outcome), Reason: a.Reason,
					})
				}
				if item.notBefore != 0 {
					one.NotBefore = p.wall().Add(item.notBefore)
				}
				if item.expires != 0 {
					one.Expires = p.wall().Add(item.expires)
				}
				all = append(all, one)
			}
			imported, err := p.queue(queue).Import(tx, all...)
			if err != nil {
				return outcome{}, err
			}
			var out outcome
			for _, one := range imported {
				v := importedView{Seq: one.Seq, Err: kindOf(one.Err)}
				if one.Err == nil {
					v.ID = one.ID.String()
				}
				if one.Found != nil {
					v.Found = []itemView{storedViewOf(one.Found)}
				}
				out.Imported = append(out.Imported, v)
				out.Events = append(out.Events, eventsOf(one.Events)...)
			}
			return out, nil
		},
		expect: using(queue, func(m *model, at moment, got outcome) outcome { return m.imports(queue, at, items, got) }),
	}
}

func (m *model) imports(queue string, at moment, items []importItem, got outcome) (out outcome) {
	existed := m.queue(queue) != nil
	q := m.create(queue)
	q.promises = false
	for n, item := range items {
		var answer importedView
		if n < len(got.Imported) {
			answer = got.Imported[n]
		}
		out.Imported = append(out.Imported, m.importOne(q, at, item, answer, &out))
	}
	q.exists = existed || slices.ContainsFunc(out.Imported, func(v importedView) bool { return v.Err == "" })
	return out
}

func (m *model) importOne(q *modelQueue, at moment, item importItem, answer importedView, out *outcome) importedView {
	home := modelItem{priority: item.priority}
	if item.id != "" {
		home = placeOf(item.id)
	}
	switch {
	case item.id == "" && item.unique == "":
		return importedView{Err: "unique"}
	case home.seq < 0 || home.seq > 1<<62:
		return importedView{Err: "place"}
	case slices.ContainsFunc(item.attempts, func(a modelAttempt) bool { return a.Outcome != "nak" || a.N < 1 }),
		len(item.attempts) > 1 && item.attempts[0].N == item.attempts[1].N:
		return importedView{Err: "attempts"}
	case item.endings.Failures > 1<<60:
		return importedView{Err: "place"}
	case !badResultTTL(item.resultTTL) && badCost(item.cost):
		return importedView{Err: "cost"}
	case badResultTTL(item.resultTTL), max(item.notBefore, item.expires) > fdbpq.MaxDelay:
		return importedView{Err: "time"}
	case strings.Contains(item.progress, "\n"):
		return importedView{Err: "progress"}
	case item.keyFence != 0 && item.key == "" || item.keyFence > (at.now+int64(fdbpq.MaxDelay))/1000:
		return importedView{Err: "key"}
	}
	if item.id == "" {
		if there := m.claimant(q, at, item.unique, false, 0, out); there != nil {
			return importedView{ID: there.id, Seq: there.seq, Found: []itemView{there.stored()}}
		}
		if len(item.payload)+len(item.headers) <= fdbpq.MaxContent {
			item.id, home.tie, home.seq = answer.ID, placeOf(answer.ID).tie, m.place(q, answer.Seq)
		}
	} else if there := q.byID(item.id); there != nil {
		return importedView{ID: item.id, Seq: home.seq, Found: []itemView{there.stored()}}
	}
	added := modelItem{
		id: item.id, priority: item.priority, seq: home.seq, tie: home.tie, payload: item.payload, headers: item.headers,
		pushed: wallStart.UnixNano(), state: fdbpq.StateReady, interruptions: item.endings.Interruptions, returns: item.endings.Returns, dead: item.dead,
		unique: item.unique, untilLeased: item.untilLeased, key: item.key, asks: askedFor(item.resultTTL), cost: item.cost,
		attempts: packed(lastAttempts(item.attempts, int(q.config.Attempts))), progress: item.progress,
	}
	added.failures = item.endings.Failures
	for added.deliveries() < item.deliveries { // what is not explained has failed
		added.failures++
	}
	added.fence = max(item.fence, added.deliveries())
	for i := range q.items {
		if compareItems(&q.items[i], &home) == 0 || compareItems(&q.items[i], &added) == 0 {
			return importedView{Err: "occupied"}
		}
	}
	if item.unique != "" && m.claimant(q, at, item.unique, false, 0, out) != nil {
		return importedView{Err: "occupied"}
	}
	if len(item.payload)+len(item.headers) > fdbpq.MaxContent {
		return importedView{Err: "content"}
	}
	if item.expires != 0 {
		added.expires = at.now + int64(max(0, item.expires))
	}
	if item.notBefore > 0 {
		added.state, added.due = fdbpq.StateDelayed, at.now+int64(item.notBefore)
	}
	if !q.promises {
		q.promises = true
		q.promisedFence = max(at.now/1000, q.promisedFence+1<<20)
	}
	q.promisedFence = max(q.promisedFence, added.fence+1)
	added.minFence = q.promisedFence
	if item.keyFence != 0 {
		added.keyFence = item.keyFence
		of := keyOfQueue{q.name, item.key}
		m.keepFence(of, max(m.fences.last[of], at.now/1000-1, added.keyFence), at)
	}
	q.hold(&added)
	q.high = max(q.high, home.seq)
	delete(q.results, added.id)
	m.add(q, added)
	return importedView{ID: added.id, Seq: home.seq}
}

// importing generates an import: of items that are there, that were there, and that
// another store has made.
func (w *world) importing(rng *rand.Rand) operation {
	queue := w.queueName(rng)
	var items []importItem
	for _, pushed := range w.pushItems(rng) {
		item := importItem{
			id: madeUpID(rng, w.priority(rng), 1+rng.Int64N(200)), payload: pushed.payload, headers: pushed.headers,
			key: pushed.key, unique: pushed.unique, untilLeased: pushed.unique != "" && pushed.untilLeased,
			notBefore: cmp.Or(pushed.notBefore, min(pushed.delay, fdbpq.MaxDelay+1)), expires: pushed.ttl,
			resultTTL: pushed.resultTTL, cost: pushed.cost,
		}
		switch rng.IntN(12) {
		case 0, 1, 2:
			if len(w.ids) > 0 {
				item.id = pick(rng, w.ids...).id
			}
			if q := w.model.queue(queue); q != nil && len(q.results) > 0 && rng.IntN(2) == 0 {
				item.id = pick(rng, slices.Sorted(maps.Keys(q.results))...)
			}
		case 3:
			item.id = madeUpID(rng, 5, pick[int64](rng, -1, 0, 1<<62+1))
		case 4:
			item.expires = -time.Hour
		case 5:
			item.deliveries = rng.Int64N(4)
			item.fence = item.deliveries + rng.Int64N(3)
			if rng.IntN(2) == 0 { // near the bound of returns, among others
				item.endings = fdbpq.Endings{Failures: rng.Int64N(3), Interruptions: rng.Int64N(3), Returns: pick[int64](rng, 0, 1, 998, 999, 1000, 1500)}
			}
			if rng.IntN(20) == 0 {
				item.endings.Failures = 1<<60 + 1
			}
		case 7, 8:
			item.keyFence = (w.clock.time + int64(pick(rng, -time.Hour, 0, time.Second, time.Minute, fdbpq.MaxDelay+time.Hour))) / 1000
		case 9:
			for n := range rng.Int64N(40) {
				item.attempts = append(item.attempts, modelAttempt{
					N: 2*n + 1, Start: rng.Int64(), End: rng.Int64(), Outcome: "nak", Holder: "w1", Reason: strings.Repeat("r", rng.IntN(200)),
				})
			}
		case 10:
			item.attempts = pick(rng, []modelAttempt{{N: 0, Outcome: "nak"}}, []modelAttempt{{N: 2, Outcome: "nak"}, {N: 2, Outcome: "nak"}}, []modelAttempt{{N: 1, Outcome: "won"}})
		case 6:
			item.unique, item.untilLeased = "", false
			item.dead = fdbpq.DeadLetter{Reason: "expired", Origin: "elsewhere", OriginID: "there", At: time.Unix(0, rng.Int64()), Deliveries: rng.Int64N(4), Interruptions: rng.Int64N(2)}
		}
		if rng.IntN(8) == 0 {
			item.progress = pick(rng, "1/3", strings.Repeat("p", 700), "two\nlines")
		}
		if rng.IntN(6) == 0 {
			item.id, item.priority = "", w.priority(rng)
			if rng.IntN(8) > 0 && item.unique == "" {
				item.unique = pick(rng, "a", "b", "c")
			}
		} else if item.priority = placeOf(item.id).priority; rng.IntN(4) == 0 {
			item.priority = w.priority(rng)
		}
		items = append(items, item)
	}
	return importOf(queue, items)
}

func madeUpID(rng *rand.Rand, priority, count int64) string {
	b := tuple.AppendInt(tuple.AppendInt(nil, priority), count)
	random := make([]byte, 8)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	return base64.RawURLEncoding.EncodeToString(tuple.AppendBytes(b, random))
}
