package bridge

import (
	"context"
	"strings"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// Quotas bound what a tenant has and does. 0: no bound.
type Quotas = tenants.Quotas

// newTenants returns the tenants of a bridge, nil if it has none.
func newTenants(o Options, store *fdbpq.Store, schedules *schedule.Schedules) *tenants.Tenants {
	if o.Tenants == nil {
		return nil
	}
	all := tenants.New(tenants.Options{
		Quotas: o.Tenants,
		Count:  func(tenant string) (tenants.Usage, error) { return usage(store, schedules, tenant) },

		ShareRequests: int64(o.Limits.Requests) * request.SharePercent / 100,
		ShareBytes:    o.Limits.Bytes * request.SharePercent / 100,

		Now: o.now,
	})
	store.Crowded(func(queue string) bool { return all.OfQueue(queue).OutOfBytes() })
	return all
}

// usagePage is how many queues are counted in one state of the store. An item that moves meanwhile to a queue that
// was counted in another state would be missed.
const usagePage = 1000

// usage counts the queues, items and bytes of a tenant. Each item has bytes for its rows, or a tenant without a quota of
// items would fill the disk with items that have none.
func usage(store *fdbpq.Store, schedules *schedule.Schedules, tenant string) (u tenants.Usage, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), desk.TxTimeoutDown)
	defer cancel()
	scope := tenant + "."
	there := make(map[string]bool)
	for after, more := scope, true; more; {
		var page tenants.Usage
		var found []string
		last := after
		err := store.View(ctx, func(r kv.Reader) error {
			page, found, last = tenants.Usage{}, nil, after
			names, err := store.Queues(r, after, usagePage)
			if err != nil {
				return err
			}
			more = len(names) == usagePage
			for _, name := range names {
				if !strings.HasPrefix(name, scope) {
					more = false
					break
				}
				last = name
				has, err := store.Queue(name).Size(r)
				if err != nil {
					return err
				}
				found = append(found, name)
				page.Items, page.Bytes = page.Items+has.Items, page.Bytes+has.Bytes+has.Items*fdbpq.ItemBytes
			}
			scheduled, err := schedules.Bytes(r, after, last)
			page.Bytes += scheduled
			return err
		})
		if err != nil {
			return u, err
		}
		for _, name := range found {
			there[name] = true
			if with := fdbpq.CountsWith(name); len(with) > len(name) || !there[with] { // a dead-letter queue comes behind its queue
				u.Queues++
			}
		}
		u.Items, u.Bytes = u.Items+page.Items, u.Bytes+page.Bytes
		after = last
	}
	return u, nil
}

// fullFor returns a function that says why neither the store nor the tenant of a queue has room for another item, or nil.
func fullFor(store func(bytes int) error, all *tenants.Tenants) func(queue string) *failure.Failure {
	return func(queue string) *failure.Failure {
		if why := store(0); why != nil {
			return failure.Explain(desk.StoreFull(why))
		}
		return all.OfQueue(queue).Full()
	}
}
