package fdbpq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// endsBy ends leases of an item of queue q in several ways, as test cases call them.
type endsBy struct {
	*fixture
	id fdbpq.ID
}

// ends leases the item and has the lease end so.
func (e endsBy) ends(how string) {
	e.Helper()
	lease, err := e.leaseOne("q", time.Minute).Lease, error(nil)
	if lease.ID() != e.id {
		e.Fatal("another item was leased")
	}
	switch how {
	case "failure":
		err = e.nack(*lease, 0)
	case "plain failure":
		err = e.nackPlain(*lease, "")
	case "interruption":
		e.pass(time.Minute)
		e.sweep()
	case "back":
		err = e.giveBack(*lease, "")
	case "stopped":
		err = e.giveBack(*lease, "stopped")
	case "revoked":
		err = e.revoke(e.id, fdbpq.Revocation{}).Err
	case "unreceived":
		_, err = e.returned(*lease)
	default:
		e.Fatalf("unknown end %q", how)
	}
	if err != nil {
		e.Fatalf("%s: %v", how, err)
	}
}

func (e endsBy) times(n int, how string) {
	e.Helper()
	for range n {
		e.ends(how)
	}
}

// has checks how often the item was handed out, and how its leases ended.
func (e endsBy) has(deliveries int64, want fdbpq.Endings) {
	e.Helper()
	got := e.get("q", e.id)
	if got == nil {
		e.Fatal("the item has left its queue")
	}
	if got.Deliveries != deliveries || got.Endings != want {
		e.Errorf("%d deliveries, %+v: expected %d, %+v", got.Deliveries, got.Endings, deliveries, want)
	}
}

func anItem(f *fixture) endsBy { return endsBy{f, f.pushed("q", 0, "x")[0]} }

// Failures and interruptions each have their own limit: an item dies at the last one of either.
func TestTwoBudgets(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for how, want := range map[string]fdbpq.DeadLetter{
			"failure":      {Reason: fdbpq.DeadMaxDeliveries, Interruptions: 15},
			"interruption": {Reason: fdbpq.DeadInterruptions, Interruptions: 16},
		} {
			e := anItem(f)
			for range 15 {
				e.ends("failure")
				e.ends("interruption")
				e.ends("stopped")
			}
			e.has(45, fdbpq.Endings{Failures: 15, Interruptions: 15, Returns: 15})
			e.ends(how)
			dead := f.leaseOne("q-dead", time.Minute)
			if got := *dead.Dead; got.Reason != want.Reason || got.Interruptions != want.Interruptions || got.Deliveries != 46 || got.OriginID != e.id.String() {
				t.Errorf("dead by a last %s: %+v", how, got)
			}
			if dead.Deliveries != 1 || dead.Endings != (fdbpq.Endings{}) {
				t.Errorf("the dead letter has %d deliveries, %+v: expected that they begin anew", dead.Deliveries, dead.Endings)
			}
			f.remove("q-dead", dead.ID)
		}
	})
}

// The interruptions have another limit if the configuration says so: fewer, more, or none.
func TestMaxInterruptions(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, c := range []struct {
			config string
			dies   int // at that interruption; 0: never
		}{
			{`{}`, 16}, {`{"max_deliveries":3}`, 3}, {`{"max_deliveries":0}`, 0}, {`{"max_interruptions":2}`, 2},
			{`{"max_deliveries":2,"max_interruptions":5}`, 5}, {`{"max_interruptions":0}`, 0}, {`{"max_deliveries":0,"max_interruptions":1}`, 1},
		} {
			f.configure("q", `{"max_deliveries":16,"max_interruptions":""}`)
			f.configure("q", c.config)
			e := anItem(f)
			if c.dies == 0 {
				e.times(40, "interruption")
				e.has(40, fdbpq.Endings{Interruptions: 40})
				f.remove("q", e.id)
				continue
			}
			e.times(c.dies-1, "interruption")
			e.has(int64(c.dies-1), fdbpq.Endings{Interruptions: int64(c.dies - 1)})
			e.ends("interruption")
			if n := f.counts("q-dead").Ready; n != 1 {
				t.Errorf("%s: %d are dead after %d interruptions", c.config, n, c.dies)
			}
			f.pop("q-dead", fdbpq.Min, 1)
		}
		for _, bad := range []string{`-1`, `"1"`, `1.5`, `null`, `9223372036854775808`, `{}`} {
			if err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").Configure(tx, fmt.Appendf(nil, `{"max_interruptions":%s}`, bad))
				return err
			}); err == nil {
				t.Errorf("max_interruptions %s is taken", bad)
			}
		}
	})
}

// Nothing that is not a failure costs an item its last try.
func TestHandBackOnLastTry(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for how, want := range map[string]fdbpq.Endings{
			"back": {Failures: 15, Returns: 1}, "stopped": {Failures: 15, Returns: 1}, "revoked": {Failures: 15, Returns: 1},
			"unreceived": {Failures: 15}, "interruption": {Failures: 15, Interruptions: 1},
		} {
			e := anItem(f)
			e.times(15, "failure")
			e.ends(how)
			e.has(want.Failures+want.Interruptions+want.Returns, want)
			f.remove("q", e.id)
		}
	})
}

// The item keeps how its leases ended wherever it goes as itself, and begins anew where it becomes another one.
func TestCountsTravel(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		e := anItem(f)
		e.times(2, "failure")
		e.times(3, "interruption")
		e.times(4, "stopped")
		e.times(5, "unreceived")
		want := fdbpq.Endings{Failures: 2, Interruptions: 3, Returns: 4}
		for _, to := range []int64{7, -3} {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Move(tx, e.id, to)
				return err
			})
			e.has(9, want)
		}
		all := f.everything("q")
		f.remove("q", e.id)
		f.imports("q", all...)
		e.has(9, want)

		for range 64 {
			e.ends("revoked")
		}
		e.times(70, "unreceived")
		want.Returns += 64
		e.has(73, want)
		if item := f.leaseOne("q", time.Minute); item.Deliveries != 74 || item.Endings != want {
			t.Errorf("leased: %d deliveries, %+v", item.Deliveries, item.Endings)
		} else if err := f.terminate(*item.Lease); err != nil {
			t.Fatal(err)
		}
		dead := f.leaseOne("q-dead", time.Minute)
		if d := dead.Dead; dead.Deliveries != 1 || dead.Endings != (fdbpq.Endings{}) || d.Deliveries != 74 || d.Interruptions != 3 {
			t.Errorf("the dead letter: %d deliveries, %+v, %+v", dead.Deliveries, dead.Endings, d)
		}
		if err := f.nack(*dead.Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.imports("q-dead", f.everything("q-dead")...) // it is there
		exported := f.everything("q-dead")
		f.remove("q-dead", dead.ID)
		f.imports("q-dead", exported...)
		if d := f.get("q-dead", dead.ID); d.Endings != (fdbpq.Endings{Failures: 1}) || d.Dead.Interruptions != 3 {
			t.Errorf("the dead letter, imported: %+v, %+v", d.Endings, d.Dead)
		}
		e.id = f.requeue("q-dead", dead.ID, "").ID
		e.has(0, fdbpq.Endings{})
	})
}

// An import may have deliveries alone: they were failures. What is in no other number is one.
func TestImportedDeliveriesAreFailures(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, c := range []struct {
			deliveries int64
			has        fdbpq.Endings
			total      int64
			want       fdbpq.Endings
		}{
			{3, fdbpq.Endings{}, 3, fdbpq.Endings{Failures: 3}},
			{6, fdbpq.Endings{Failures: 1, Interruptions: 2, Returns: 3}, 6, fdbpq.Endings{Failures: 1, Interruptions: 2, Returns: 3}},
			{7, fdbpq.Endings{Failures: 1, Interruptions: 2, Returns: 3}, 7, fdbpq.Endings{Failures: 2, Interruptions: 2, Returns: 3}}, // it was leased
			{0, fdbpq.Endings{Failures: 1, Interruptions: 2, Returns: 3}, 6, fdbpq.Endings{Failures: 1, Interruptions: 2, Returns: 3}},
		} {
			e := anItem(f)
			item := f.everything("q")[0]
			f.remove("q", e.id)
			item.Deliveries, item.Endings = c.deliveries, c.has
			f.imports("q", item)
			e.has(c.total, c.want)
			f.remove("q", e.id)
		}
	})
}

// An item stays away by the number that its cause has. Its key waits for it, and its TTL goes on.
func TestBackoffByCause(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_order":true,"backoff":["1s","2s","30s","40s","50s","60s","70s","80s"]}`)
		away := func(want time.Duration) {
			t.Helper()
			f.blocked("q")
			f.pass(want - time.Nanosecond)
			f.sweep()
			f.blocked("q")
			f.pass(time.Nanosecond)
			f.sweep()
		}
		ids := []fdbpq.ID{f.push("q", fdbpq.NewItem{Key: "k", TTL: time.Hour})[0].ID, f.push("q", fdbpq.NewItem{Key: "k"})[0].ID}
		e := endsBy{f, ids[0]}
		for n := range time.Duration(7) {
			e.ends("plain failure")
			away([]time.Duration{1, 2, 30, 40, 50, 60, 70}[n] * time.Second)
		}
		for n := range time.Duration(3) {
			if says := f.get("q", e.id); says.Failures != 7 {
				t.Fatalf("%+v", says.Endings)
			}
			e.ends("interruption")
			away([]time.Duration{1, 2, 30}[n] * time.Second)
		}
		for _, how := range []string{"back", "stopped", "revoked", "unreceived"} {
			e.ends(how)
			if got := f.get("q", e.id).State; got != fdbpq.StateReady {
				t.Errorf("%s: it is %s", how, got)
			}
		}
		f.leaseOne("q", time.Minute)
		f.pass(time.Hour) // its lease and its TTL are over
		if events := f.sweep(); len(events) != 2 || events[0].Type != fdbpq.EventLeaseLost || events[1].Type != fdbpq.EventExpired || events[1].ID != e.id {
			t.Errorf("events %+v, expected that it is lost, and expires", events)
		}
		if next := f.leaseOne("q", time.Minute); next.ID != ids[1] {
			t.Error("the next one of the key does not come")
		}
	})
}

// Where deliveries have no limit, neither failures nor interruptions end an item, whatever it counted before.
func TestNeverStaysNever(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":0}`)
		for _, before := range []int64{0, 100} {
			e := anItem(f)
			old := f.everything("q")[0]
			f.remove("q", e.id)
			old.Deliveries = before
			f.imports("q", old)
			for range 100 {
				e.ends("failure")
				e.ends("interruption")
			}
			e.has(before+200, fdbpq.Endings{Failures: before + 100, Interruptions: 100})
			f.remove("q", e.id)
		}
	})
}

// More than one delivery means that somebody may have begun: so it is after each end, unless nobody received the item.
func TestRedelivered(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, how := range []string{"failure", "interruption", "back", "stopped", "revoked", "unreceived"} {
			e := anItem(f)
			e.ends(how)
			if again := f.leaseOne("q", time.Minute); again.Deliveries > 1 == (how == "unreceived") {
				t.Errorf("after %s it was delivered %d times", how, again.Deliveries)
			}
			f.remove("q", e.id)
		}
	})
}

// Who gives back what is not theirs any more changes nothing.
func TestBackAfterTheEnd(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for how, want := range map[string]fdbpq.Lost{"failure": fdbpq.LostReturned, "back": fdbpq.LostReturned, "interruption": fdbpq.LostExpired, "revoked": fdbpq.LostTaken} {
			for _, reason := range []string{"", "stopped"} {
				e := anItem(f)
				lease := f.leaseOne("q", time.Minute).Lease
				var err error
				switch how {
				case "failure":
					err = f.nack(*lease, 0)
				case "back":
					err = f.giveBack(*lease, "")
				case "interruption":
					f.pass(time.Minute) // the sweep is late
				case "revoked":
					err = f.revoke(e.id, fdbpq.Revocation{}).Err
				}
				if err != nil {
					t.Fatal(err)
				}
				before := f.get("q", e.id)
				if got := lost(f.giveBack(*lease, reason)); got != want {
					t.Errorf("given back after %s: %q, expected %q", how, got, want)
				}
				if after := f.get("q", e.id); after.Endings != before.Endings || after.Deliveries != before.Deliveries || after.State != before.State {
					t.Errorf("given back after %s: %+v became %+v", how, before, after)
				}
				f.remove("q", e.id)
			}
		}
	})
}

// What nobody has begun is no attempt, so it pushes none out.
func TestManyHandBacksKeepAttempts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		e := anItem(f)
		e.ends("plain failure")
		e.times(100, "back")
		e.ends("stopped")
		all := f.attempts("q", e.id)
		if len(all) != 2 || all[0].Outcome != fdbpq.OutcomeNack || all[0].N != 1 || all[1].Outcome != fdbpq.OutcomeBack || all[1].N != 102 || all[1].Reason != "stopped" {
			t.Errorf("the attempts are %+v", all)
		}
	})
}

// The events of a lease that its holder lost, and of a death, say how the leases ended.
func TestEventsCount(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":2}`)
		e := anItem(f)
		e.ends("failure")
		f.leaseOne("q", time.Minute)
		f.pass(time.Minute)
		events := f.sweep()
		f.leaseOne("q", time.Minute)
		events = append(events, f.revoke(e.id, fdbpq.Revocation{}).Events...)
		settled, err := f.nacked(*f.leaseOne("q", time.Minute).Lease, 0)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, settled.Events...)
		want := []fdbpq.Endings{{Failures: 1, Interruptions: 1}, {Failures: 1, Interruptions: 1, Returns: 1}, {Failures: 2, Interruptions: 1, Returns: 1}}
		for i, kind := range []fdbpq.EventType{fdbpq.EventLeaseLost, fdbpq.EventRevoked, fdbpq.EventDead} {
			if i >= len(events) || events[i].Type != kind || events[i].Endings != want[i] || events[i].Deliveries != int64(i+2) {
				t.Fatalf("event %d: %+v, expected %s with %+v", i, events, kind, want[i])
			}
		}
	})
}
