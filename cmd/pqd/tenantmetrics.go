package main

import (
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/pqbridge/pqbridge/subjects"
)

// metricsPage serves the metrics of all queues. If tenants have tokens, each of them gets its own metrics.
func (p *pages) metricsPage() http.Handler {
	own := &tenantMetrics{all: p.metrics, now: time.Now}
	return p.perCaller(promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{}), func(tenant string) http.Handler {
		return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return own.of(tenant) }), promhttp.HandlerOpts{})
	})
}

// perCaller serves a page about all tenants. As soon as any tenant has a token, its users come to this server, too: then
// the page asks for a token, and a tenant gets its own page, or none.
func (p *pages) perCaller(all http.Handler, own func(tenant string) http.Handler) http.Handler {
	if p.gateway == nil {
		return all
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.tenants.haveTokens() {
			all.ServeHTTP(w, r)
			return
		}
		switch tenant, may := p.gateway.Caller(w, r); {
		case !may:
		case tenant == "":
			all.ServeHTTP(w, r)
		case own == nil:
			http.Error(w, "this page is about all tenants: expected the operator's token", http.StatusForbidden)
		default:
			own(tenant).ServeHTTP(w, r)
		}
	})
}

// gatherEvery is how long tenants see the same metrics. Collecting them is work for all queues, however many
// tenants ask.
const gatherEvery = time.Second

var errMetrics = errors.New("collecting the metrics failed: the operator's page says why")

// tenantMetrics are the metrics of one tenant: metrics of its queues, and metrics of the tenant itself.
type tenantMetrics struct {
	all prometheus.Gatherer
	now func() time.Time

	mu    sync.Mutex
	until time.Time
	owned map[string][]*dto.MetricFamily
	err   error
}

func (m *tenantMetrics) of(tenant string) ([]*dto.MetricFamily, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.now().Before(m.until) {
		families, err := m.all.Gather()
		m.owned, m.err = byTenant(families), nil
		if err != nil {
			m.err = errMetrics // its text may name queues of others
		}
		m.until = m.now().Add(gatherEvery)
	}
	return m.owned[tenant], m.err
}

// byTenant sorts metrics by tenant. It leaves out metrics that are not about one tenant alone.
func byTenant(families []*dto.MetricFamily) map[string][]*dto.MetricFamily {
	owned := make(map[string][]*dto.MetricFamily)
	for _, family := range families {
		last := make(map[string]*dto.MetricFamily)
		for _, metric := range family.Metric {
			tenant, labels := ownLabels(metric.Label)
			if tenant == "" {
				continue
			}
			if last[tenant] == nil {
				last[tenant] = &dto.MetricFamily{Name: family.Name, Help: family.Help, Type: family.Type, Unit: family.Unit}
				owned[tenant] = append(owned[tenant], last[tenant])
			}
			last[tenant].Metric = append(last[tenant].Metric, &dto.Metric{
				Label: labels, Gauge: metric.Gauge, Counter: metric.Counter, Untyped: metric.Untyped, Summary: metric.Summary, Histogram: metric.Histogram,
			})
		}
	}
	return owned
}

// ownLabels returns the tenant that labels name, "" for none, and the labels as the tenant sees them: with its own
// name of the queue, and without the store.
func ownLabels(labels []*dto.LabelPair) (tenant string, own []*dto.LabelPair) {
	own = slices.Clone(labels)
	for i, label := range labels {
		switch label.GetName() {
		case "tenant":
			tenant = label.GetValue()
		case "queue":
			tenant = subjects.Tenant(label.GetValue())
			own[i] = &dto.LabelPair{Name: label.Name, Value: new(subjects.Own(label.GetValue()))}
		}
	}
	return tenant, slices.DeleteFunc(own, func(label *dto.LabelPair) bool { return label.GetName() == "store" })
}
