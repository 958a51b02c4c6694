package top

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// choose moves the cursor to a queue.
func (f *fakeTop) choose(queue string) {
	f.t.Helper()
	for f.press(screen.Home); f.model.list.current() != queue; f.press(screen.Down) {
		if f.model.list.cursor == len(f.model.list.shown)-1 {
			f.t.Fatalf("%s is not there", queue)
		}
	}
}

// What changes something asks, and any other key than y means no.
func TestTopAsksBeforeChanges(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		queue, key, question string
		want                 change
	}{
		{"jobs", "p", "pause jobs? Consumers get nothing until it is resumed. y: yes", change{action: pauseQueue, queue: "jobs"}},
		{"mail", "p", "resume mail? y: yes", change{action: resumeQueue, queue: "mail"}},
		{"jobs", "r", "requeue up to 4 dead letters to jobs? y: yes", change{action: requeueAll, queue: "jobs", most: 4}},
	} {
		f := smallTop(t)
		f.choose(one.queue)
		for _, no := range []screen.Key{"n", screen.Enter, screen.Escape, "q", screen.Up, " "} {
			f.press(screen.Key(one.key))
			if !strings.HasPrefix(f.line(-1), one.question) {
				t.Fatalf("%s: %s", one.key, f.line(-1))
			}
			f.press(no)
			if f.model.begins() != nil || f.model.ask != nil || f.model.left {
				t.Errorf("%s, %s: it changes something, asks again or leaves", one.key, no)
			}
			f.shows("nothing was done")
		}
		f.press(screen.Key(one.key))
		// The list changes while the question stands there.
		f.queues["video"].Rates.Push = 0
		delete(f.queues, "video")
		f.later(2 * time.Second)
		f.press("y")
		c := f.model.begins()
		if c == nil || *c != one.want || f.model.begins() != nil {
			t.Errorf("%s: %+v", one.key, c)
		}
		f.press("p")
		if f.model.ask != nil {
			t.Error("a second change at the same time")
		}
		f.shows("it is not done yet")
		f.happens(progressed{100})
		f.shows("100 items so far")
		f.happens(done{text: "all is well"})
		f.shows("all is well")
		f.later(noteFor)
		f.hides("all is well")
		f.press("p")
		if f.model.ask == nil {
			t.Error("no question after the change")
		}
	}
}

func TestTopFailedChange(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.choose("jobs")
	f.press("p", "y")
	f.happens(done{"pause jobs", errors.New("no way")})
	f.shows("pause jobs: no way")
}

// Where there is nothing to requeue no key asks.
func TestTopNothingToRequeue(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.choose("video")
	f.press("r")
	f.shows("video has no dead letters")
	f.choose("jobs-dead")
	f.press("r")
	f.shows("jobs-dead is for dead letters: requeue them at their queue")
	if f.model.ask != nil {
		t.Error("it asks")
	}
}

// A question that was asked before the connection was lost changes nothing.
func TestTopConfirmedTooLate(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.choose("jobs")
	f.press("p")
	f.happens(linked{false})
	f.press("y")
	if f.model.begins() != nil {
		t.Error("it changes something")
	}
}

func listedItem(id string, priority int64, pushed time.Time) client.Listed {
	return client.Listed{ID: id, Priority: priority, Pushed: pushed, Size: 100, State: client.Ready}
}

func queueTop(t *testing.T) *fakeTop {
	t.Helper()
	f := newFakeTop(t, 100, 15)
	info := f.add("jobs", 9, 1)
	info.Leased, info.Delayed, info.Bytes, info.Config.MaxDeliveries = 1, 1, 3000, 16
	info.OldestOfAll, info.OldestAtLeast = 7200, true
	f.add("jobs-dead", 2, 0)
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"} {
		f.items["jobs ready"] = append(f.items["jobs ready"], listedItem("id-"+id, 5, f.now.Add(-time.Minute)))
	}
	leased := listedItem("id-x", 1, f.now.Add(-time.Hour))
	leased.Holder = "web1-4711"
	leased.Due, leased.Deliveries, leased.Key = f.now.Add(30*time.Second), 2, "acme"
	f.items["jobs leased"] = []client.Listed{leased}
	delayed := listedItem("id-y", 2, f.now)
	delayed.Due = f.now.Add(2 * time.Hour)
	f.items["jobs delayed"] = []client.Listed{delayed}
	for _, id := range []string{"dead-1", "dead-2"} {
		i := listedItem(id, 3, f.now.Add(-time.Hour))
		i.Dead = &client.Death{Reason: "no such address", Origin: "jobs", OriginID: "id-0", At: f.now.Add(-3 * time.Minute), Deliveries: 16}
		f.items["jobs-dead ready"] = append(f.items["jobs-dead ready"], i)
	}
	f.start()
	return f
}

func TestTopQueue(t *testing.T) {
	t.Parallel()
	f := queueTop(t)
	f.press(screen.Enter)
	want := strings.TrimSpace(`
pq top  nats://127.0.0.1:4222  prefix pq                                                    12:00:00
jobs
next item 9s   oldest 2h0m+   size 2.9 KiB   waiting pops 0
pushes/s 1.0   pops/s 0.0   settlements/s 0.0
lease 0s   max_deliveries 16   max_length 0   dead letters in jobs-dead

[ready 9]   leased 1   delayed 1   dead 2   page 1
ID    PRIORITY   AGE   SIZE  DELIVERIES  KEY
id-a         5  1m0s  100 B           0
id-b         5  1m0s  100 B           0
id-c         5  1m0s  100 B           0
id-d         5  1m0s  100 B           0
id-e         5  1m0s  100 B           0
id-f         5  1m0s  100 B           0
esc back  tab next list  enter item  p pause  r requeue dead  ? help  q quit`)
	if got := f.terminal.Text(); got != want {
		t.Fatalf("\n%s\nexpected\n%s", got, want)
	}
	f.press(screen.End, screen.Down)
	f.shows("page 2", "id-g", "id-i")
	f.hides("id-f")
	f.press(screen.Up)
	f.shows("page 1", "id-a", "id-f")
	f.press(screen.Tab)
	f.shows("[leased 1]", "LEASE ENDS", "HOLDER", "id-x", "in 30s", "web1-4711", "acme")
	f.press(screen.Right)
	f.shows("[delayed 1]", "DUE", "id-y", "in 2h0m")
	f.press("l")
	f.shows("[dead 2]", "DIED", "DELIVERIES", "CAUSE", "dead-1", "3m0s ago", "16", "no such address")
	f.press(screen.BackTab, "h", screen.Left)
	f.shows("[ready 9]")
	f.press("p")
	f.shows("pause jobs?")
	f.press("n")
	f.queues["jobs"].Paused = true
	f.queues["jobs"].Config.Backoff = `["1s","1m0s"]`
	f.later(time.Second)
	f.shows("jobs  paused", `max_length 0   backoff ["1s","1m0s"]   dead letters in`)
	f.happens(linked{false})
	f.shows("disconnected since 12:00:01", "[ready ~9]", "next item ~9s", "oldest ~2h0m+", "jobs  ~paused")
	f.happens(linked{true})
	delete(f.queues, "jobs")
	f.later(time.Second)
	f.shows("there is no such queue")
	f.press(screen.Escape)
	f.expectRows("jobs-dead")
	f.press(screen.Enter, screen.BackTab)
	f.shows("this queue is for dead letters", "dead -")
}

// The cursor stays at the item that was chosen, while those before it go.
func TestTopItemCursor(t *testing.T) {
	t.Parallel()
	f := queueTop(t)
	f.press(screen.Enter, screen.Down, screen.Down)
	f.items["jobs ready"] = f.items["jobs ready"][1:]
	f.later(time.Second)
	if got := f.model.detail.current().ID; got != "id-c" {
		t.Errorf("at %s", got)
	}
	f.items["jobs ready"] = nil
	f.later(time.Second)
	if f.shows("no ready items"); f.model.detail.current() != nil {
		t.Error("an item of an empty queue")
	}
	f.press(screen.Enter, screen.Down, screen.Up, screen.End)
}

func TestTopRequeuesAnItem(t *testing.T) {
	t.Parallel()
	f := queueTop(t)
	f.press(screen.Enter, screen.BackTab, screen.Down, "r")
	f.shows("requeue dead-2 to jobs?")
	f.press("y")
	if c := f.model.begins(); c == nil || *c != (change{action: requeueOne, queue: "jobs", id: "dead-2"}) {
		t.Errorf("%+v", c)
	}
	f.happens(done{text: "requeued 1 item"})
	f.press("R")
	f.shows("requeue up to 2 dead letters to jobs?")
	f.press("n", screen.Tab, "r")
	f.shows("requeue up to 2 dead letters to jobs?")
	f.press("n", screen.BackTab)
	f.items["jobs-dead ready"][0].Dead = nil
	f.later(time.Second)
	f.press(screen.Home, "r")
	f.shows("dead-1 is no dead letter")
	f.items["jobs-dead ready"] = nil
	f.later(time.Second)
	f.press("r")
	f.shows("jobs has no dead letters")
}

func TestTopItem(t *testing.T) {
	t.Parallel()
	f := queueTop(t)
	f.bodies["id-a"] = &client.Item{
		Queue: "jobs", ID: "id-a", Priority: 5, Pushed: f.now, State: client.Ready,
		Payload: []byte("first\tline\r\n" + strings.Repeat("0123456789", 15) + "\nlast line\n"),
	}
	f.resize(100, 14)
	f.press(screen.Enter, screen.Enter)
	f.shows("as of 12:00:00   lines 1 to 9 of 10", "Id: id-a", "State: ready", "first    line", "0123456789")
	f.press(screen.PageDown)
	f.shows("lines 2 to 10 of 10", "last line")
	looks := len(f.looks)
	f.later(time.Second)
	if now := f.looks[looks:]; len(now) != 1 || now[0].(queueLook).queue != "jobs" {
		t.Errorf("%+v", now)
	}
	f.press(screen.Escape, screen.Down, screen.Enter)
	f.shows("the item is gone")
	f.press(screen.Escape, screen.Escape)
	f.expectRows("jobs jobs-dead")

	f.bodies["id-a"].Payload = []byte(strings.Repeat("x", maxShown+1))
	f.press(screen.Enter, screen.Enter)
	f.shows("the first 64.0 KiB of 64.0 KiB:")
	if n := len(f.model.item.lines); n > maxShown/100+20 {
		t.Errorf("%d lines", n)
	}
}
