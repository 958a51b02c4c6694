package fdbpq_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// modelAttempt is a lease that ended without success, as an item remembers it.
type modelAttempt struct {
	N          int64
	Start, End int64 // by a wall clock
	Holder     string
	Outcome    string
	Reason     string
}

// modelAttempts are all that an item remembers, in a form that can be compared.
type modelAttempts string

func packed(all []modelAttempt) modelAttempts {
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return modelAttempts(text)
}

func (a modelAttempts) all() (all []modelAttempt) {
	if a == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(a), &all); err != nil {
		panic(err)
	}
	return all
}

// retryAfter is how long an item stays away after its n-th delivery under a backoff setting, as
// the protocol defines it: in exact numbers.
func retryAfter(setting, id string, n int64) time.Duration {
	if setting == "" {
		return 0
	}
	var list []string
	if json.Unmarshal([]byte(setting), &list) == nil {
		return parseDuration(list[min(int(n), len(list))-1])
	}
	var grows struct {
		Delay, Max     string
		Factor, Jitter json.Number
	}
	if err := json.Unmarshal([]byte(setting), &grows); err != nil {
		panic(err)
	}
	number := func(n json.Number) *big.Rat {
		f, err := n.Float64()
		if err != nil {
			panic(err)
		}
		return new(big.Rat).SetFloat64(f)
	}
	d, most := new(big.Rat).SetInt64(int64(parseDuration(grows.Delay))), new(big.Rat).SetInt64(int64(parseDuration(grows.Max)))
	for range n - 1 {
		if d.Cmp(most) >= 0 {
			break
		}
		d.Mul(d, number(grows.Factor))
	}
	if d.Cmp(most) > 0 {
		d = most
	}
	sum := sha256.Sum256([]byte(fmt.Sprint(id, " ", n)))
	u := new(big.Rat).SetFrac(new(big.Int).Rsh(new(big.Int).SetBytes(sum[:]), 256-53), new(big.Int).Lsh(big.NewInt(1), 53))
	spread := u.Mul(u, big.NewRat(2, 1))
	spread.Sub(spread, big.NewRat(1, 1))
	spread.Mul(spread, number(grows.Jitter))
	d.Mul(d, spread.Add(spread, big.NewRat(1, 1)))
	d.Add(d.Quo(d, big.NewRat(int64(time.Millisecond), 1)), big.NewRat(1, 2))
	whole := new(big.Int).Quo(d.Num(), d.Denom()).Int64()
	return min(time.Duration(max(whole, 1))*time.Millisecond, fdbpq.MaxDelay)
}

func parseDuration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

// backoff is how long a leased item stays away whose work fails now.
func (q *modelQueue) backoff(item *modelItem) time.Duration {
	return retryAfter(string(q.config.Backoff), item.id, item.failures+1)
}

// lastReturn is how many leases are handed back or reach nobody before each further one is an interruption.
const lastReturn = 1000

// endLease ends the lease of an item without success. The delay is the one that was named, nil for none.
func (m *model) endLease(q *modelQueue, at moment, item *modelItem, outcome, reason string, end int64, delay *time.Duration, out *outcome) {
	due, dies := m.countEnd(q, at, item, outcome, reason, end, delay)
	m.comeBack(q, at, item.number, due, dies, out)
}

// countEnd counts the end of a lease: each of the ways is a row of the table in docs/protocol/retries.md. It
// returns when the item is ready again, and why it dies.
func (m *model) countEnd(q *modelQueue, at moment, item *modelItem, outcome, reason string, end int64, delay *time.Duration) (due int64, dies string) {
	unbegun := outcome == "unreceived" || outcome == "back" && reason == ""
	if !unbegun {
		q.recordAttempt(at, item, outcome, reason, end)
	}
	item.lease, item.givenBack, item.takenAway = 0, outcome != "expired" && outcome != "revoked", outcome == "revoked"
	counts := outcome
	if (outcome == "back" || outcome == "unreceived") && item.returns+item.unreceived >= lastReturn {
		counts, unbegun = "interruption", false
	}
	var away time.Duration
	dead := func(n, most int64, why string) {
		if most > 0 && n >= most && item.dead == (fdbpq.DeadLetter{}) {
			dies = why
		}
	}
	switch counts {
	case "nak":
		item.failures++
		away = retryAfter(string(q.config.Backoff), item.id, item.failures)
		dead(item.failures, q.config.MaxDeliveries, "max_deliveries")
	case "expired":
		item.interruptions++
		away = retryAfter(string(q.config.Backoff), item.id, item.interruptions)
		dead(item.interruptions, q.mostInterruptions(), "interruptions")
	case "interruption":
		item.interruptions++
		dead(item.interruptions, q.mostInterruptions(), "interruptions")
	case "back", "revoked":
		item.returns++
	case "unreceived":
		item.unreceived++
	}
	if unbegun {
		m.giveBack(q, item, at.now)
	}
	if delay != nil {
		away = *delay
	}
	if away > 0 {
		due = end + int64(away)
	}
	return due, dies
}

// comeBack returns an item to its queue, unless it dies.
func (m *model) comeBack(q *modelQueue, at moment, number int, due int64, dies string, out *outcome) {
	if dies != "" {
		gone := *q.byNumber(number)
		q.remove(number)
		m.moveToDeadLetters(q, at, gone, dies, out)
		return
	}
	m.reinstate(q, at, number, due, out)
}

func (q *modelQueue) mostInterruptions() int64 {
	if q.config.MaxInterruptions == "" {
		return q.config.MaxDeliveries
	}
	n, err := strconv.ParseInt(string(q.config.MaxInterruptions), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func showEndings(e fdbpq.Endings) string {
	if e == (fdbpq.Endings{}) {
		return ""
	}
	return fmt.Sprintf(", ended %d, %d, %d", e.Failures, e.Interruptions, e.Returns)
}

func (q *modelQueue) recordAttempt(at moment, item *modelItem, outcome, reason string, end int64) {
	n := item.deliveries()
	all := item.attempts.all()
	if len(all) > 0 {
		n = max(n, all[len(all)-1].N+1)
	}
	all = append(all, modelAttempt{
		N: n, Start: at.display(item.since), End: at.display(end), Holder: item.holder, Outcome: outcome, Reason: remembered(reason),
	})
	grown := *item
	grown.attempts = packed(lastAttempts(all, int(q.config.Attempts)))
	if _, bytes := amount(q.items); grown.overhead() > item.overhead() && q.config.MaxBytes > 0 && bytes > q.config.MaxBytes {
		return
	}
	item.attempts = grown.attempts
}

// lastAttempts are those that an item keeps: each counts 128 bytes and its texts, of 4096.
func lastAttempts(all []modelAttempt, most int) []modelAttempt {
	for len(all) > 0 {
		size := 0
		for _, a := range all {
			size += 128 + len(a.Holder) + len(a.Reason)
		}
		if len(all) <= most && size <= 4096 {
			return all
		}
		all = all[1:]
	}
	return nil
}

// remembered is as much of a reason as an attempt keeps.
func remembered(reason string) string {
	var kept strings.Builder
	for _, c := range reason {
		if unicode.IsControl(c) {
			c = ' '
		}
		if kept.Len()+len(string(c)) > 200 {
			break
		}
		kept.WriteRune(c)
	}
	return kept.String()
}

func attemptsOf(attempts fdbpq.Attempts) (views []modelAttempt) {
	all, err := attempts.All()
	if err != nil {
		return []modelAttempt{{Reason: err.Error()}}
	}
	for _, a := range all {
		views = append(views, modelAttempt{a.N, a.Start.UnixNano(), a.End.UnixNano(), a.Holder, string(a.Outcome), a.Reason})
	}
	if n := attempts.Last(); len(all) > 0 && n != all[len(all)-1].N {
		return []modelAttempt{{Reason: fmt.Sprint("the last one is ", n)}}
	}
	return views
}

// takeBack ends a lease without its holder.
func (m *model) takeBack(q *modelQueue, at moment, item *modelItem, kind fdbpq.EventType, outcome, reason string, end int64,
	delay *time.Duration, out *outcome) {
	fence := int64(0)
	if kind == fdbpq.EventRevoked {
		fence = item.fence - 1 // of the lease, which was taken away
	}
	holder, priority, deliveries, id, number := item.holder, item.priority, item.deliveries(), item.id, item.number
	n := len(out.Events)
	due, dies := m.countEnd(q, at, item, outcome, reason, end, delay)
	out.Events = append(out.Events, showEvent(string(kind), q.name, id, priority, deliveries, reason, "")+showEndings(item.endings()))
	m.comeBack(q, at, number, due, dies, out)
	due = 0
	if back := q.byNumber(number); back != nil && back.state == fdbpq.StateDelayed {
		due = back.due
	}
	out.Events[n] += lostBy(holder, due, fence)
}

// lostBy is what an event says of a lease that its holder has lost.
func lostBy(holder string, due, fence int64) string {
	if holder == "" && due == 0 && fence == 0 {
		return ""
	}
	return fmt.Sprintf(", held by %q with fence %d, back at %d", holder, fence, due)
}

func (m *model) revoke(id knownID, at moment, r fdbpq.Revocation) outcome {
	q := m.queue(id.queue)
	if q == nil {
		return outcome{}
	}
	item := q.byID(id.id)
	switch {
	case item == nil:
		return outcome{}
	case item.ofLink:
		return outcome{Err: "held"}
	case r.Fence > item.fence:
		return outcome{Err: "no fence"}
	case r.Fence != 0 && r.Fence != item.fence:
		return outcome{Err: "lost: taken"}
	case item.state != fdbpq.StateLeased && (r.Fence == 0 || item.takenAway):
		return outcome{Err: "not leased"}
	case item.state != fdbpq.StateLeased && item.givenBack:
		return outcome{Err: "lost: returned"}
	case item.state != fdbpq.StateLeased:
		return outcome{Err: "lost: expired"}
	}
	number := item.number
	out := outcome{OK: true, N: item.deliveries()}
	item.fence++
	m.takeBack(q, at, item, fdbpq.EventRevoked, "revoked", r.Reason, min(at.now, item.due), r.Delay, &out)
	switch back := q.byNumber(number); {
	case back != nil:
		out.Reason = fdbpq.Reason(back.state)
	case strings.HasPrefix(out.Events[len(out.Events)-1], "dead"):
		out.Reason = "dead"
	}
	return out
}

func revokeOf(id knownID, r fdbpq.Revocation) operation {
	delay := "by the backoff"
	if r.Delay != nil {
		delay = r.Delay.String()
	}
	return operation{
		name: fmt.Sprintf("revoke %s/%s fence %d, delay %s, reason %q", id.queue, id.id, r.Fence, delay, r.Reason),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			done, err := p.queue(id.queue).Revoke(tx, parseID(id.id), r)
			if err == nil {
				err = done.Err
			}
			if err != nil || !done.Found {
				return outcome{}, err
			}
			out := outcome{OK: true, N: done.Deliveries, Reason: fdbpq.Reason(done.State), Events: eventsOf(done.Events)}
			if done.Dead {
				out.Reason = "dead"
			}
			return out, nil
		},
		expect: using(id.queue, func(m *model, at moment, _ outcome) outcome { return m.revoke(id, at, r) }),
	}
}

// revoking generates the end of a lease without its holder.
func (w *world) revoking(rng *rand.Rand) operation {
	l := w.recentLease(rng)
	r := fdbpq.Revocation{Fence: pick(rng, 0, 0, l.fence, l.fence, l.fence+1), Reason: pick(rng, "", "it\nhangs", strings.Repeat("€", 90))}
	if rng.IntN(2) == 0 {
		r.Delay = new(pick(rng, 0, time.Millisecond, 30*time.Second))
	}
	return revokeOf(knownID{queue: l.queue, id: l.id}, r)
}

// holders generates what those who lease items call themselves.
func (w *world) holders(rng *rand.Rand) []string {
	return pick(rng, nil, nil, []string{"w1"}, []string{"w1", "", "w2"}, []string{strings.Repeat("long ", 25)})
}

// backoffs are settings, with what is stored of them.
var backoffs = map[string]fdbpq.Backoff{
	`""`:               "",
	`{"delay":"1s"}`:   `{"delay":"1s","factor":2,"max":"10m0s","jitter":0.1}`,
	`{"delay":"1h"}`:   `{"delay":"1h0m0s","factor":2,"max":"1h0m0s","jitter":0.1}`,
	`["1s","1500ms"]`:  `["1s","1.5s"]`,
	`["87600h"]`:       `["87600h0m0s"]`,
	`[ "1ms", "40s" ]`: `["1ms","40s"]`,
	`{"delay":"1ms","factor":1.5,"max":"7s","jitter":0}`:          `{"delay":"1ms","factor":1.5,"max":"7s","jitter":0}`,
	`{"jitter":1,"delay":"2s","factor":10,"max":"87600h"}`:        `{"delay":"2s","factor":10,"max":"87600h0m0s","jitter":1}`,
	`{"delay":"300ms","factor":1.1,"max":"300ms","jitter":0.333}`: `{"delay":"300ms","factor":1.1,"max":"300ms","jitter":0.333}`,
}
