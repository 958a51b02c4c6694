package bridge

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/results"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
)

// Collector returns the bridge's metrics.
func (b *Bridge) Collector() prometheus.Collector {
	return collector{
		Responder: b.responder, events: b.events, waits: b.waits, results: b.workers.results, receiver: b.receiver,
		owners: b.peers.Owners, about: b.service.about, tenants: b.tenants,
		queues: survey.Collector{Surveyor: b.surveyor, StoreID: b.service.about.storeID, Log: b.responder.Log},
	}
}

type collector struct {
	*request.Responder
	events   *events.Announcer
	waits    *pops.Waits
	results  *results.Waits
	receiver *receiver.Receiver
	owners   *peers.Owners
	about    *about
	tenants  *tenants.Tenants // nil: there are none
	queues   prometheus.Collector
}

var (
	descRequests       = prometheus.NewDesc("pq_requests_total", "Requests by verb and answer.", []string{"verb", "code"}, nil)
	descInFlight       = prometheus.NewDesc("pq_requests_in_flight", "Requests being served.", []string{"kind"}, nil)
	descBytes          = prometheus.NewDesc("pq_bytes_in_flight", "Bytes of the requests being served.", nil, nil)
	descWaiters        = prometheus.NewDesc("pq_waiters", "Pops that wait for an item, and requests that wait for a result.", nil, nil)
	descUnseen         = prometheus.NewDesc("pq_waits_unseen", "Pops that wait for a short time only, since the server cannot tell whether their clients listen.", nil, nil)
	descLost           = prometheus.NewDesc("pq_pushes_lost_total", "Pushes without a reply subject that were not stored.", nil, nil)
	descShedding       = prometheus.NewDesc("pq_load_shedding_total", "Load shedding: times that the bridge unsubscribed from requests because more came than it could refuse.", nil, nil)
	descPushShedding   = prometheus.NewDesc("pq_load_shedding_pushes_total", "Load shedding: times that the bridge also unsubscribed from pushes, so those without a reply subject were lost uncounted.", nil, nil)
	descPassed         = prometheus.NewDesc("pq_passed_requests_total", "Pops and settlements, passed on to the bridge that owns their queue (to), or taken from other bridges (from).", []string{"direction"}, nil)
	descEvents         = prometheus.NewDesc("pq_events_total", "Events by type.", []string{"type"}, nil)
	descEnded          = prometheus.NewDesc("pq_leases_ended_total", "Leases that ended, by how they did.", []string{"how"}, nil)
	descClock          = prometheus.NewDesc("pq_schedule_clock_offset_seconds", "How far the clock of schedules is from this machine's. A bridge fires them only while both agree to two seconds.", nil, nil)
	descTenantRequests = prometheus.NewDesc("pq_tenant_requests_total", "Requests of a tenant that were within its rate.", []string{"tenant"}, nil)
	descTenantCharged  = prometheus.NewDesc("pq_tenant_charged_total", "Requests that a tenant was charged, with the items, bytes and rows that cost as much.", []string{"tenant"}, nil)
	descTenantRefused  = prometheus.NewDesc("pq_tenant_refused_total", "Requests of a tenant beyond a quota, by the reason in the answer.", []string{"tenant", "reason"}, nil)
	descTenantUnread   = prometheus.NewDesc("pq_tenant_unread_total", "Messages of a tenant that were refused unread, because it sent more than the bridge handled.", []string{"tenant"}, nil)
	descTenantQueues   = prometheus.NewDesc("pq_tenant_queues", "Queues of a tenant, at the last count.", []string{"tenant"}, nil)
	descTenantItems    = prometheus.NewDesc("pq_tenant_items", "Items of a tenant, at the last count.", []string{"tenant"}, nil)
	descTenantBytes    = prometheus.NewDesc("pq_tenant_bytes", "Bytes of the items of a tenant, at the last count.", []string{"tenant"}, nil)
	descBridge         = prometheus.NewDesc("pq_bridge_info", "1, with what this bridge serves.", []string{"prefix", "store", "name"}, nil)
)

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descInFlight, descBytes, descWaiters, descUnseen,
		descLost, descShedding, descPushShedding, descPassed, descEvents, descEnded, descClock, descBridge} {
		to <- d
	}
	if c.tenants != nil {
		for _, d := range []*prometheus.Desc{descTenantRequests, descTenantCharged, descTenantRefused, descTenantUnread,
			descTenantQueues, descTenantItems, descTenantBytes} {
			to <- d
		}
	}
	c.queues.Describe(to)
	for _, v := range c.Stats.Histograms() {
		v.Describe(to)
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for i, v := range verbs {
		c.Stats.Verbs[i].Answers(func(code int, n int64) { counter(descRequests, n, v.Name, strconv.Itoa(code)) })
	}
	work, settlements, bytes := c.Gate.InFlight()
	gauge(descInFlight, float64(work), "work")
	gauge(descInFlight, float64(settlements), "settlement")
	gauge(descBytes, float64(bytes))
	gauge(descWaiters, float64(c.waits.Waiting()+c.results.Waiting()))
	gauge(descUnseen, float64(c.waits.Unseen()+c.results.Unseen()))
	counter(descLost, c.Stats.Lost())
	requests, pushes := c.receiver.Sheddings()
	counter(descShedding, requests)
	counter(descPushShedding, pushes)
	passed, taken := c.owners.Counts()
	counter(descPassed, passed, "to")
	counter(descPassed, taken, "from")
	for kind, n := range c.events.Counts() {
		counter(descEvents, n, string(kind))
	}
	for how, n := range c.Stats.Ended() {
		counter(descEnded, n, how)
	}
	gauge(descClock, c.Stats.ScheduleClock().Seconds())
	for _, v := range c.Stats.Histograms() {
		v.Collect(to)
	}
	to <- prometheus.MustNewConstMetric(descBridge, prometheus.GaugeValue, 1, c.about.options.Prefix, c.about.storeID, c.about.options.StoreName)
	if c.tenants != nil {
		for name, n := range c.tenants.Counts() {
			counter(descTenantRequests, n.Requests, name)
			counter(descTenantCharged, n.Charged, name)
			counter(descTenantUnread, n.Unread, name)
			for reason, refused := range n.Refused {
				counter(descTenantRefused, refused, name, string(reason))
			}
			if n.Counted {
				gauge(descTenantQueues, float64(n.Queues), name)
				gauge(descTenantItems, float64(n.Items), name)
				gauge(descTenantBytes, float64(n.Bytes), name)
			}
		}
	}
	c.queues.Collect(to)
}
