package bridge_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// stopping is a way to stop a source that has read messages 1 to 5, with messages of the stream that it has not read. The numbers of
// those come last; restored is how many of the stream's messages it has read, when a server has an older state again.
type stopping struct {
	name, mode, reason string
	config             jetstream.StreamConfig
	filter             string
	stop               func(f *fed) (unread []string, restored int)
}

func (f *fed) replace(config jetstream.StreamConfig) {
	f.Helper()
	if err := f.js.DeleteStream(f.Context(), "ORDERS"); err != nil {
		f.Fatal(err)
	}
	config.Name, config.Subjects = "ORDERS", []string{"orders.>"}
	f.make(config)
}

// lost has the stream lose its end, of three messages. While pausing, it grows by n before the source looks.
func (f *fed) lost(pausing bool, n int) (unread []string, restored int) {
	f.Helper()
	f.older(func() {
		f.publish(3)
		f.at(8)
		if pausing {
			ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.pause", "")
		}
	})
	f.publish(n)
	if pausing {
		f.resume("")
	}
	return numbers(9, f.next-1), 5
}

func (f *fed) deleteConsumer() {
	f.Helper()
	if err := f.js.DeleteConsumer(f.Context(), "ORDERS", f.consumer()); err != nil {
		f.Fatal(err)
	}
}

func stoppings() (all []stopping) {
	workQueue := jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy}
	for _, c := range []struct {
		mode   string
		config jetstream.StreamConfig
	}{{"copy", jetstream.StreamConfig{}}, {"take", workQueue}} {
		all = append(
			all,
			stopping{"a new stream", c.mode, "stream_replaced", c.config, "", func(f *fed) ([]string, int) {
				f.replace(c.config)
				f.publish(7) // before the position, at it, and behind it
				return numbers(6, 12), 0
			}},
			stopping{"a shorter stream", c.mode, "stream_behind", c.config, "", func(f *fed) ([]string, int) { return f.lost(false, 2) }},
			stopping{"a stream that has grown again", c.mode, "stream_diverged", c.config, "", func(f *fed) ([]string, int) { return f.lost(true, 6) }},
		)
		all = append(all, stopping{"a stream that has grown again without our message", c.mode, "stream_diverged", c.config, "", func(f *fed) ([]string, int) {
			f.older(func() {
				f.publish(3)
				f.at(8)
				ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.pause", "")
			})
			f.publish(6)
			f.delete(8)
			f.resume("")
			return append(numbers(9, 10), numbers(12, 14)...), 5
		}})
	}
	return append(
		all,
		stopping{"a new consumer", "take", "consumer_changed", workQueue, "", func(f *fed) ([]string, int) {
			f.deleteConsumer()
			f.publish(3)
			return numbers(6, 8), 0
		}},
		stopping{"a new consumer without the filter", "take", "consumer_changed", workQueue, `"orders.eu.>"`, func(f *fed) ([]string, int) {
			f.publishTo("orders.us", 4)
			f.publish(1)
			f.at(10) // 6 to 9 are before it
			ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.pause", "")
			f.set(`{"filter":[]}`)
			f.deleteConsumer()
			f.publish(2)
			f.resume("")
			return append(numbers(6, 9), numbers(11, 12)...), 0
		}},
		stopping{"a consumer that another one gave a filter", "take", "consumer_changed", workQueue, `"orders.eu.>"`, func(f *fed) ([]string, int) {
			f.publishTo("orders.us", 4)
			f.publish(1)
			f.at(10)
			ofFed[protocol.Source](f, "pq.jobs.admin.source.orders.pause", "")
			c, err := f.js.Consumer(f.Context(), "ORDERS", f.consumer())
			if err == nil {
				config := c.CachedInfo().Config
				config.FilterSubject, config.FilterSubjects = "orders.us", nil
				_, err = f.js.UpdateConsumer(f.Context(), "ORDERS", config)
			}
			if err != nil {
				f.Fatal(err)
			}
			f.publish(2)
			f.resume("")
			return numbers(11, 12), 0 // the others are not of this source, and stay
		}},
	)
}

// Whatever has stopped a source, accept leaves no message behind: each that was not read is an item, wherever its sequence is. One that takes
// gets again what was restored, and nothing else; one that copies gets nothing again.
func TestAcceptLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for _, c := range stoppings() {
		t.Run(c.mode+" "+c.name, func(t *testing.T) {
			t.Parallel()
			f := feeding(t, c.config)
			f.publish(5)
			f.set(`{"remote":"hub","stream":"ORDERS","mode":"` + c.mode + `","filter":[` + c.filter + `]}`)
			f.at(5)
			f.acknowledged(5)
			unread, restored := c.stop(f)
			f.state("stopped", c.reason)
			read := f.popAll()
			unread = append(unread, numbers(f.next, f.next+1)...)
			f.publish(2) // between the stop and the answer to it
			f.resume(`{"accept":true}`)
			last, _ := strconv.Atoi(unread[len(unread)-1])
			f.publish(1)
			unread = append(unread, strconv.Itoa(last+1))
			var got []string
			testenv.Await(t, "the last message is an item", func() bool {
				got = append(got, f.popAll()...)
				return slices.Contains(got, unread[len(unread)-1])
			})
			want := unread
			if c.mode == "take" && len(got) > len(unread) {
				want = append(read[:restored:restored], unread...)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("items %v came: expected %v, as %v had come before", got, want, read)
			}
			if s := f.shown(); s.State != "running" || s.Counts.Skipped != 0 {
				t.Errorf("the source is %+v", s)
			}
		})
	}
}

// acknowledged waits until the stream of a source that takes has nothing up to a message.
func (f *fed) acknowledged(seq uint64) {
	f.Helper()
	if f.shown().Mode == "copy" {
		return
	}
	testenv.AwaitAnswer(f.TB, "what was read is acknowledged", func(ctx context.Context) bool {
		c, err := f.js.Consumer(ctx, "ORDERS", f.consumer())
		return err == nil && c.CachedInfo().AckFloor.Stream == seq
	})
}

// popAll pops what is there.
func (f *fed) popAll() (all []string) {
	f.Helper()
	for {
		m := f.ask("pq.jobs.pop.min", "")
		if m.Header.Get("Status") == "404" {
			return all
		}
		all = append(all, string(m.Data))
	}
}

// What the stream drops while a person thinks is counted when he accepts.
func TestAcceptCountsWhatIsLost(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	f.publish(5)
	f.set(`{"remote":"hub","stream":"ORDERS","mode":"take"}`)
	f.at(5)
	f.acknowledged(5)
	f.deleteConsumer()
	f.publish(6)
	f.state("stopped", "consumer_changed")
	f.purge(9)
	skips := f.hear("pq.jobs.event.source_skipped")
	f.resume(`{"accept":true}`)
	f.items("1", "2", "3", "4", "5", "9", "10", "11")
	if s := f.at(11); s.Counts.Skipped != 3 {
		t.Errorf("counts: %+v", s.Counts)
	}
	f.client.next(skips)
}

// A changed filter holds for all that was not read, wherever it lies in the stream; and what was read does not come again.
func TestFilterOfASourceThatTakesChanges(t *testing.T) {
	t.Parallel()
	f := feeding(t, jetstream.StreamConfig{Retention: jetstream.WorkQueuePolicy})
	f.publishTo("orders.us", 3)
	f.publish(3)
	f.set(`{"remote":"hub","stream":"ORDERS","mode":"take","filter":["orders.eu.>"]}`)
	f.items(numbers(4, 6)...)
	f.publishTo("orders.us", 2)
	f.publish(2)
	f.set(`{"filter":["orders.us"]}`)
	testenv.Await(t, "those of the other subject come", func() bool { return f.shown().Counts.Delivered >= 8 })
	f.publish(1)
	f.set(`{"filter":[]}`)
	f.at(11)
	got := f.popAll()
	slices.Sort(got)
	want := numbers(1, 11)
	want = append(want[:3:3], want[6:]...)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("items %v came, expected %v", got, want)
	}
	if s := f.shown(); s.Counts.Skipped != 0 || s.Counts.Delivered != 11 {
		t.Errorf("counts: %+v", s.Counts)
	}
}
