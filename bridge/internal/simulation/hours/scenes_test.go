package hours_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// look is what a look at a queue has shown.
type look struct {
	protocol.Info
	at     time.Duration      // of the hour
	values map[string]float64 // of the metrics, once a minute
}

// is says what is wrong about the cause of a look.
func (l *look) is(cause protocol.Cause, text string) string {
	if e := &l.Explain; e.Cause != cause || !strings.Contains(e.Text, text) {
		return fmt.Sprintf("expected %s and %q", cause, text)
	}
	return ""
}

// fails says what is wrong about a look at a queue that fails.
func (l *look) fails(items int64) string {
	if wrong := l.is(protocol.CauseFailing, "the last: smtp 550, held by vm-"); wrong != "" {
		return wrong
	}
	if e := &l.Explain; e.Failing != items || e.Reason != "smtp 550" || !strings.HasPrefix(e.Holder, "vm-") {
		return fmt.Sprintf("expected %d items that failed of smtp 550", items)
	}
	if l.values != nil && l.values["pq_queue_cause "+l.Queue+" failing"] != 1 {
		return "the cause among the metrics is another one"
	}
	return ""
}

// rule is what looks between two moments have to show.
type rule struct {
	from, to time.Duration
	wrong    func(l *look) string
}

// scene is a queue with those who use it.
type scene struct {
	queue string
	begin func(h *hour, queue string)
	rules []rule
}

// judge names the first look that breaks a rule.
func (s *scene) judge(t *testing.T, looks []look) {
	for n, rule := range s.rules {
		seen := 0
		for i := range looks {
			if l := &looks[i]; l.at >= rule.from && l.at <= rule.to {
				seen++
				if wrong := rule.wrong(l); wrong != "" {
					t.Errorf("%s, rule %d, after %s: %s, found %+v and failures %v", s.queue, n, l.at, wrong, l.Explain, l.History.Nacked[45:])
					break
				}
			}
		}
		if seen == 0 {
			t.Errorf("%s: no look from %s to %s", s.queue, rule.from, rule.to)
		}
	}
}

// end is that of the hour, which has forty minutes: a default queue lets an item fail for about as long.
const end = 40 * time.Minute

// says are what workers say of their jobs.
func says(text string) func(string, int) string { return func(string, int) string { return text } }

const failure = `-NAK {"reason":"smtp 550"}`

func failing(items int64) func(*look) string { return func(l *look) string { return l.fails(items) } }

// more says by History.Fails, as doctor does, whether more attempts fail than succeed.
func more(fail bool) func(*look) string {
	return func(l *look) string {
		if l.History.Fails() != fail {
			return fmt.Sprintf("that more attempts fail than succeed is not %t", fail)
		}
		return ""
	}
}

// counted asks for so many failures among the metrics.
func counted(failures float64) func(*look) string {
	return func(l *look) string {
		if got, told := l.values["pq_queue_failures_total "+l.Queue]; !told || got < failures {
			return fmt.Sprintf("%v failures are counted, expected %v", got, failures)
		}
		return ""
	}
}

func quiet(l *look) string {
	if l.Explain.Cause == protocol.CauseFailing {
		return "it does not fail"
	}
	return more(false)(l)
}

func stands(l *look) string {
	if l.Explain.Cause == protocol.CauseFlows {
		return "nothing flows"
	}
	return ""
}

func holds(holder string) func(*look) string {
	return func(l *look) string {
		if l.Explain.Cause != protocol.CauseLeased || l.Explain.Holder != holder || !strings.Contains(l.Explain.Text, holder) {
			return "expected that " + holder + " has a lease"
		}
		return ""
	}
}

func lost(holder string) func(*look) string {
	return func(l *look) string { return l.is(protocol.CauseNoWorkers, "The last holder, "+holder) }
}

// hangs has jobs, and a worker that hangs at its sixth job, half a minute after the hour began. It extends its lease up to a moment; 0: never.
func hangs(jobs int, lease, extends time.Duration) func(h *hour, queue string) {
	return func(h *hour, queue string) {
		h.push(queue, jobs, "job")
		h.workers(1, worker{queue: queue, lease: lease, takes: 5 * time.Second, extends: extends, does: func(item string, _ int) string {
			if item == "job5" {
				return ""
			}
			return "+ACK"
		}})
	}
}

var scenes = []*scene{
	// All five fail for the second time within the first half minute. What is pushed with a delay, and stands before them, hides nothing.
	{"poison-with-backoff", func(h *hour, queue string) {
		h.does("pq."+queue+".admin.config", `{"backoff":{"delay":"10s","factor":2,"max":"10m"}}`)
		h.does("pq."+queue+".admin.schedule.later", `{"spec":"@every 2h"}`)
		for range 40 {
			h.does("pq."+queue+".push.0", "later", "PQ-Delay", "2h")
		}
		h.push(queue, 5, "poison")
		h.workers(1, worker{queue: queue, lease: time.Minute, takes: time.Second, does: says(failure)})
	}, []rule{
		{30 * time.Second, end, failing(5)},
		{2 * time.Minute, 2 * time.Minute, counted(10)},
		{6 * time.Minute, 6 * time.Minute, more(true)},
	}},
	// They are ready again at once, and leased by five workers nearly all the time.
	{"poison-at-once", func(h *hour, queue string) {
		h.does("pq."+queue+".admin.config", `{"max_deliveries":100000}`)
		h.push(queue, 5, "poison")
		h.workers(5, worker{queue: queue, lease: time.Minute, takes: 10 * time.Second, does: says(failure)})
	}, []rule{
		{80 * time.Second, end, failing(5)},
		{2 * time.Minute, 2 * time.Minute, counted(50)},
		{6 * time.Minute, end, more(true)},
	}},
	// One item is tried again and again, and the only worker gets to no other.
	{"poison-in-front", func(h *hour, queue string) {
		h.does("pq."+queue+".admin.config", `{"max_deliveries":100000}`)
		h.does("pq."+queue+".push.1", "poison")
		h.push(queue, 30, "job")
		h.workers(1, worker{queue: queue, lease: time.Minute, takes: 3 * time.Second, does: says(failure)})
	}, []rule{
		{70 * time.Second, end, failing(1)},
		{6 * time.Minute, end, more(true)},
	}},
	// One item alone fails for the second time after a minute, and too seldom for doctor and the alert.
	{"poison-alone", func(h *hour, queue string) {
		h.does("pq."+queue+".admin.config", `{"backoff":{"delay":"1m","factor":2,"max":"10m"}}`)
		h.push(queue, 1, "poison")
		h.workers(1, worker{queue: queue, lease: time.Minute, takes: time.Second, does: says(failure)})
	}, []rule{
		{130 * time.Second, end, failing(1)},
		{0, end, more(false)},
	}},
	// Four workers are killed amidst their jobs. Their leases run out within half a minute.
	{"killed", func(h *hour, queue string) {
		h.push(queue, 400, "job")
		h.workers(4, worker{queue: queue, lease: 30 * time.Second, takes: 5 * time.Second, does: says("+ACK"), leaves: 182 * time.Second})
	}, []rule{
		{15 * time.Second, 3 * time.Minute, func(l *look) string { return l.is(protocol.CauseFlows, "") }},
		{195 * time.Second, end, stands},
		{195 * time.Second, 205 * time.Second, func(l *look) string { return l.is(protocol.CauseLeased, "is that of vm-") }},
		{4 * time.Minute, end, lost("vm-")},
	}},
	// A worker hangs, and its lease is extended for half an hour.
	{"hangs-and-extends", hangs(20, 30*time.Second, 30*time.Minute), []rule{
		{40 * time.Second, end, stands},
		{40 * time.Second, 30 * time.Minute, holds("vm-1")},
		{31 * time.Minute, end, lost("vm-1")},
	}},
	// A worker hangs with a lease of five minutes, that nobody extends.
	{"hangs", hangs(20, 5*time.Minute, 0), []rule{
		{40 * time.Second, end, stands},
		{40 * time.Second, 5 * time.Minute, holds("vm-1")},
		{6 * time.Minute, end, lost("vm-1")},
	}},
	// The same with the last item of the queue.
	{"hangs-at-the-last", hangs(6, 5*time.Minute, 0), []rule{
		{30 * time.Second, 5 * time.Minute, holds("vm-1")},
		{6 * time.Minute, end, lost("vm-1")},
	}},
	// One job of fifty fails three times, and one fails always. The others go on.
	{"one-of-fifty", func(h *hour, queue string) {
		h.does("pq."+queue+".admin.config", `{"backoff":{"delay":"10s"},"max_deliveries":100000}`)
		h.run(func() {
			for n := 0; !h.pause(2 * time.Second); n++ {
				h.does("pq."+queue+".push.5", fmt.Sprint(n))
			}
		})
		h.workers(3, worker{queue: queue, lease: time.Minute, takes: 3 * time.Second, does: func(item string, attempt int) string {
			if item == "0" || strings.HasSuffix(item, "50") && attempt <= 3 {
				return failure
			}
			return "+ACK"
		}})
	}, []rule{{0, end, quiet}, {2 * time.Minute, 2 * time.Minute, counted(3)}}},
	// Jobs take a third of an hour, and the first of them fails once.
	{"long-jobs", func(h *hour, queue string) {
		h.push(queue, 8, "job")
		h.workers(2, worker{queue: queue, lease: time.Minute, takes: 20 * time.Minute, does: func(item string, attempt int) string {
			if item == "job0" && attempt == 1 {
				return failure
			}
			return "+ACK"
		}})
	}, []rule{{0, end, quiet}, {15 * time.Second, 19 * time.Minute, func(l *look) string { return l.is(protocol.CauseLeased, "vm-") }}}},
}
