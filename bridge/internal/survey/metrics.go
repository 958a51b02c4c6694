package survey

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/source"
)

// Collector has the metrics of queues: counts of this bridge, and numbers that it reads from the store.
type Collector struct {
	*Surveyor
	StoreID string // the label of all metrics
	Log     *slog.Logger
}

// otherQueues is the label of all queues without a place together. No queue has this name.
const otherQueues = "_other"

func queueDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pq_queue_"+name, help, append([]string{"store", "queue"}, labels...), nil)
}

var (
	descItems         = queueDesc("items", "Items by state.", "state")
	descQueueBytes    = queueDesc("bytes", "Bytes of the payloads and headers of all items.")
	descWaiting       = queueDesc("waiting", "Pops that wait at this bridge.")
	descOldest        = queueDesc("oldest_seconds", "Age of the item that pop.min would take.")
	descOldestOfAll   = queueDesc("oldest_of_all_seconds", "Age of the oldest ready item, whatever its priority.")
	descOldestAtLeast = queueDesc("oldest_of_all_at_least", "Whether there are more priorities than were looked at, so that an item may be older: 1 or 0.")
	descOldestLease   = queueDesc("oldest_lease_seconds", "Age of the oldest lease, extensions included.")
	descLeaseAtLeast  = queueDesc("oldest_lease_at_least", "Whether there are more leases than were looked at, so that one may be older: 1 or 0.")
	descKeys          = queueDesc("keys", "Keys that have ready items, as far as they were counted.")
	descKeysAtLeast   = queueDesc("keys_at_least", "Whether more keys have ready items than were counted: 1 or 0.")
	descKeysWaiting   = queueDesc("keys_waiting", "Keys counted whose next item has to wait, by what for.", "waits_for")
	descPaused        = queueDesc("paused", "Whether the queue is paused: 1 or 0.")
	descCause         = queueDesc("cause", "1, with the cause for which nothing moves, as far as this bridge knows.", "cause")
	descLimit         = queueDesc("limit", "Limits that are set; rates in deliveries a second, the lease in seconds.", "limit")
	descRemembered    = queueDesc("remembered_ids", "Ids of pushes and pops that are remembered.")
	descResults       = queueDesc("results", "Results that are kept.")
	descResultBytes   = queueDesc("result_bytes", "Bytes that they take.")
	descTakesDead     = queueDesc("takes_dead_letters", "1: the queue takes the dead letters of others.")
	descNotServed     = queueDesc("not_served_total", "Requests that were not served, by the reason in the answer.", "reason")

	descPlaces    = prometheus.NewDesc("pq_metrics_queues", "Queues that have metrics of their own.", nil, nil)
	descMaxPlaces = prometheus.NewDesc("pq_metrics_queues_max", "How many queues can have metrics of their own.", nil, nil)
)

func sourceDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("pq_source_"+name, help, append([]string{"store", "queue", "source"}, labels...), nil)
}

var descSourceState = sourceDesc("state", "1, with what the source does.", "state")

// sourceMetrics are numbers of a source, which the store has.
var sourceMetrics = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*source.Source) float64
}{
	{sourceDesc("position", "Sequence of the last message that the source is done with."), prometheus.GaugeValue, func(s *source.Source) float64 { return float64(s.Position.Seq) }},
	{sourceDesc("lag", "Sequences of the stream behind that."), prometheus.GaugeValue, func(s *source.Source) float64 { return float64(s.Lag()) }},
	{sourceDesc("standing_seconds", "How long the source has stopped, been blocked or failed; 0: it does not."), prometheus.GaugeValue, func(s *source.Source) float64 {
		if s.Since() == 0 {
			return 0
		}
		return max(0, time.Since(time.Unix(0, s.Since())).Seconds())
	}},
	{sourceDesc("delivered_total", "Messages that became items."), prometheus.CounterValue, func(s *source.Source) float64 { return float64(s.Position.Delivered) }},
	{sourceDesc("skipped_total", "Messages that the stream lost before they were read."), prometheus.CounterValue, func(s *source.Source) float64 { return float64(s.Position.Skipped) }},
	{sourceDesc("poisoned_total", "Messages that became dead letters, or were passed over."), prometheus.CounterValue, func(s *source.Source) float64 { return float64(s.Position.Poisoned) }},
}

func linkDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("pq_link_"+name, help, []string{"store", "queue", "link"}, nil)
}

// linkMetrics are numbers of a link, which the store has.
var linkMetrics = []struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*link.Link) float64
}{
	{linkDesc("batch", "Number of the last batch that the link has given."), prometheus.GaugeValue, func(l *link.Link) float64 { return float64(l.Batch) }},
	{linkDesc("held", "Items of it that the other store has not confirmed."), prometheus.GaugeValue, func(l *link.Link) float64 { return float64(l.Held) }},
	{linkDesc("held_seconds", "How long they have been out; 0: there are none."), prometheus.GaugeValue, func(l *link.Link) float64 {
		if l.Held == 0 {
			return 0
		}
		return max(0, time.Since(time.Unix(0, l.Since)).Seconds())
	}},
	{linkDesc("given_total", "Items that the other store has confirmed."), prometheus.CounterValue, func(l *link.Link) float64 { return float64(l.Given) }},
}

// keyWaits are the reasons for which keys wait.
var keyWaits = []fdbpq.WaitsFor{fdbpq.WaitsForKeyLimit, fdbpq.WaitsForKeyOrder, fdbpq.WaitsForKeyRate, fdbpq.WaitsForKeyCost, fdbpq.WaitsForPause}

// descCounters are the metrics of events of items.
var descCounters = [request.Counters]*prometheus.Desc{
	request.Pushed:       queueDesc("pushed_total", "Items that pushes added."),
	request.Duplicates:   queueDesc("duplicates_total", "Items that pushes did not add, because they were there."),
	request.Imported:     queueDesc("imported_total", "Items that imports added."),
	request.Popped:       queueDesc("popped_total", "Items that pops took, with or without a lease."),
	request.Acknowledged: queueDesc("acknowledged_total", "Leased items that were acknowledged."),
	request.Returned:     queueDesc("returned_total", "Leased items that -NAK or +BACK returned, or that reached no client."),
	request.Nacked:       queueDesc("failures_total", "Attempts that failed: leased items that -NAK returned."),
	request.LeasesLost:   queueDesc("leases_lost_total", "Leases that ran out."),
	request.Revoked:      queueDesc("revoked_total", "Leases that were taken away."),
	request.Expired:      queueDesc("expired_total", "Items that outlived their TTL, but for those that became dead letters."),
	request.Dead:         queueDesc("dead_total", "Items that became dead letters, or were dropped as such."),
	request.Evicted:      queueDesc("evicted_total", "Items that the full queue gave up for others."),

	request.ScheduleFired:      queueDesc("schedule_fired_total", "Items that schedules of the queue have pushed."),
	request.ScheduleMissed:     queueDesc("schedule_missed_total", "Times of schedules that passed without an item: pqd was down, or the queue full."),
	request.ScheduleOverlapped: queueDesc("schedule_overlapped_total", "Times of schedules that passed because an earlier item was still there."),
	request.CostReserved:       queueDesc("cost_reserved_total", "Cost that settled deliveries had reserved, where a rate bounds cost."),
	request.CostSpent:          queueDesc("cost_spent_total", "What these deliveries have cost by the word of their holders, or else what they had reserved."),
	request.Removed:            queueDesc("removed_total", "Items that were removed or purged."),
}

// Describe implements [prometheus.Collector].
func (c Collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descItems, descQueueBytes, descWaiting, descOldest, descOldestOfAll, descOldestAtLeast, descOldestLease, descLeaseAtLeast,
		descKeys, descKeysAtLeast, descKeysWaiting, descPaused, descCause, descLimit, descRemembered, descResults, descResultBytes, descTakesDead,
		descNotServed, descPlaces, descMaxPlaces, descSourceState,
	} {
		to <- d
	}
	for _, d := range descCounters {
		if d != nil {
			to <- d
		}
	}
	for _, m := range sourceMetrics {
		to <- m.desc
	}
	for _, m := range linkMetrics {
		to <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c Collector) Collect(to chan<- prometheus.Metric) {
	surveys, feeds, links, err := c.survey(context.Background())
	if err != nil {
		c.Log.Debug("reading the metrics of the queues failed", "error", err)
	}
	for name, q := range surveys {
		c.gauges(to, name, &q)
	}
	for i := range feeds {
		s := &feeds[i]
		to <- prometheus.MustNewConstMetric(descSourceState, prometheus.GaugeValue, 1, c.StoreID, s.Queue, s.Name, string(s.State))
		for _, m := range sourceMetrics {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(s), c.StoreID, s.Queue, s.Name)
		}
	}
	for i := range links {
		l := &links[i]
		for _, m := range linkMetrics {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(l), c.StoreID, l.Queue, l.Name)
		}
	}
	counts, rest := c.places.Counts()
	for name, q := range counts {
		c.counters(to, name, &q)
	}
	c.counters(to, otherQueues, &rest)
	to <- prometheus.MustNewConstMetric(descPlaces, prometheus.GaugeValue, float64(len(counts)))
	to <- prometheus.MustNewConstMetric(descMaxPlaces, prometheus.GaugeValue, float64(c.places.Most()))
}

func (c Collector) gauges(to chan<- prometheus.Metric, name string, q *queue) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{c.StoreID, name}, labels...)...)
	}
	gauge(descItems, float64(q.Ready), "ready")
	gauge(descItems, float64(q.Leased), "leased")
	gauge(descItems, float64(q.Delayed), "delayed")
	gauge(descQueueBytes, float64(q.Bytes))
	gauge(descWaiting, float64(q.waiting))
	gauge(descOldest, q.NextAge())
	gauge(descOldestOfAll, q.ReadyAge())
	gauge(descOldestAtLeast, oneIf(q.OldestReady.AtLeast))
	gauge(descOldestLease, q.LeaseAge())
	gauge(descLeaseAtLeast, oneIf(q.OldestLease.AtLeast))
	if q.Keyed {
		gauge(descKeys, float64(q.KeyCounts.Keys))
		gauge(descKeysAtLeast, oneIf(q.KeyCounts.More))
		for _, what := range keyWaits {
			gauge(descKeysWaiting, float64(q.KeyCounts.Waiting[what]), string(what))
		}
	}
	gauge(descPaused, oneIf(q.Paused))
	gauge(descCause, 1, string(q.cause))
	gauge(descRemembered, float64(q.Remembered))
	gauge(descResults, float64(q.Results))
	gauge(descResultBytes, float64(q.ResultBytes))
	if TakesDeadLetters(name, &q.Config) {
		gauge(descTakesDead, 1)
	}
	results := int64(0) // most queues keep none
	if q.Results > 0 || q.Config.ResultBytes > 0 {
		results = q.MaxResultBytes
	}
	for limit, n := range map[string]float64{
		"max_length": float64(q.Config.MaxLength), "max_bytes": float64(q.MaxBytes), "dedup_limit": float64(q.Config.DedupLimit), "key_limit": float64(q.Config.KeyLimit),
		"max_deliveries": float64(q.Config.MaxDeliveries), "rate": q.Config.Rate.PerSecond(), "key_rate": q.Config.KeyRate.PerSecond(),
		"cost_rate": q.Config.CostRate.PerSecond(), "key_cost_rate": q.Config.KeyCostRate.PerSecond(), "lease": time.Duration(q.Config.Lease).Seconds(),
		"result_bytes": float64(results),
	} {
		if n > 0 {
			gauge(descLimit, n, limit)
		}
	}
}

func (c Collector) counters(to chan<- prometheus.Metric, name string, q *request.QueueCounts) {
	for i, n := range q.Tally {
		counter := request.Counter(i)
		if descCounters[i] == nil || n == 0 && (counter == request.CostReserved || counter == request.CostSpent) {
			continue // most queues have no cost
		}
		to <- prometheus.MustNewConstMetric(descCounters[i], prometheus.CounterValue, float64(n), c.StoreID, name)
	}
	for reason, n := range q.NotServed {
		to <- prometheus.MustNewConstMetric(descNotServed, prometheus.CounterValue, float64(n), c.StoreID, name, string(reason))
	}
}

// TakesDeadLetters reports whether dead letters of other queues come to this one.
func TakesDeadLetters(name string, config *fdbpq.Config) bool {
	return strings.HasSuffix(name, fdbpq.DeadLetterSuffix) || config.DeadLettersFrom != ""
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
