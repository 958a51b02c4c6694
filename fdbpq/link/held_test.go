package link_test

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
)

// Who asks what is held is told the link that holds most, and since when by the wall clock; what others hold is none of it.
func TestHeld(t *testing.T) {
	t.Parallel()
	store, db := opened(t)
	links, orders := link.New(store), store.Queue("orders")
	change(t, db, func(tx kv.Tx) error {
		if _, err := links.Set(tx, orders, "second", []byte(`{"to":"elsewhere"}`)); err != nil {
			return err
		}
		if _, err := orders.Push(tx, make([]fdbpq.NewItem, 5)...); err != nil {
			return err
		}
		if _, err := links.Give(tx, orders, "second", link.Ask{Taker: "elsewhere", Batch: "none", Items: fdbpq.Selection{Limit: 3}}); err != nil {
			return err
		}
		_, err := orders.Lease(tx, fdbpq.Selection{Limit: 1, Holders: []string{"link:hub"}}, time.Minute)
		return err
	})
	for queue, want := range map[string]fdbpq.Held{"orders": {Items: 5, Link: "second", Since: began.Add(time.Second)}, "purged": {}, "none": {}} {
		view(t, store, func(r kv.Reader) error {
			held, err := links.Held(r, store.Queue(queue))
			if held.Items != want.Items || held.Link != want.Link || !held.Since.Equal(want.Since) {
				t.Errorf("%s: held %+v, expected %+v", queue, held, want)
			}
			return err
		})
	}
	type answer struct {
		link  string
		since time.Time
	}
	found := make(map[answer]int)
	view(t, store, func(r kv.Reader) error {
		page, err := orders.List(r, fdbpq.Listing{State: fdbpq.StateLeased, Limit: 100})
		for i := range page.Items {
			var a answer
			if a.link, a.since, err = links.HolderOf(r, orders, &page.Items[i]); err != nil {
				return err
			}
			found[answer{a.link, a.since.UTC()}]++
		}
		return err
	})
	hub, second, none := answer{"hub", began.UTC()}, answer{"second", began.Add(time.Second).UTC()}, answer{"", time.Time{}}
	if len(found) != 3 || found[hub] != 2 || found[second] != 3 || found[none] != 2 {
		t.Errorf("found %v", found)
	}
}

func view(t *testing.T, store *fdbpq.Store, fn func(kv.Reader) error) {
	t.Helper()
	if err := store.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}
