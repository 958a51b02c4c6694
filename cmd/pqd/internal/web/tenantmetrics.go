package web

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/pqbridge/pqbridge/subjects"
)

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
