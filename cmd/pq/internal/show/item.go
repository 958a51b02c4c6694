package show

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/protocol"
)

// Item is an item as pop, peek, get, list and export write it, and import reads it.
type Item struct{ protocol.Item }

// Shown makes JSON of an item that was popped, peeked at or got.
func Shown(from *client.Item) *Item {
	i := &Item{ofAnswer(from)}
	i.Ack = from.AckSubject()
	if from.State != "" {
		i.Due = from.Due
	} else {
		i.LeaseExpires = from.LeaseExpires()
	}
	if from.Backoff > 0 {
		i.Backoff = from.Backoff.String()
	}
	i.SetHeaders(from.Header)
	i.SetPayload(from.Payload)
	return i
}

// Listed makes JSON of an item of a list.
func Listed(from *client.Listed) *Item {
	i := &Item{ofListed(from)}
	i.SetHeaders(from.Header)
	if from.Body != nil {
		i.SetPayload(from.Body)
	}
	return i
}

// Describe writes everything about an item, for people.
func (i *Item) Describe() string {
	at := func(t time.Time) string { return fmt.Sprintf("%s (%s)", t.Local().Format(time.RFC3339), Until(t)) }
	var f Facts
	f.Add("Id", "%s", i.ID)
	f.Add("Queue", "%s", i.Queue)
	f.Add("Priority", "%d", i.Priority)
	if i.Key != "" {
		f.Add("Key", "%s", i.Key)
	}
	if i.State != "" {
		f.Add("State", "%s", i.State)
	}
	if i.WaitsFor != "" {
		f.Add("Waits for", "%s", i.WaitsFor)
	}
	if i.KeyAhead > 0 {
		f.Add("Of its key before it", "%d", i.KeyAhead)
	}
	f.Add("Pushed", "%s", at(i.Pushed))
	if !i.Due.IsZero() {
		f.Add("Due", "%s", at(i.Due))
	}
	if i.Deliveries > 0 {
		f.Add("Deliveries", "%s", Deliveries(i.Deliveries, i.Endings))
	}
	if i.Cost > 1 {
		f.Add("Cost", "%s a delivery", Thousands(i.Cost))
	}
	if i.Schedule != "" {
		f.Add("Schedule", "%s, for %s", i.Schedule, at(i.ScheduledAt))
	}
	if s := i.Source; s != nil && s.ID != "" {
		f.Add("Source", "%s, item %s", s.Name, s.ID)
	} else if s != nil {
		f.Add("Source", "%s, message %d on %s, %s", s.Name, s.Seq, s.Subject, at(s.Time))
	}
	if i.Holder != "" {
		f.Add("Held by", "%s", i.Holder)
	}
	if i.Progress != "" && i.ProgressAt.IsZero() {
		f.Add("Progress", "%s", i.Progress)
	} else if i.Progress != "" {
		f.Add("Progress", "%s, %s", i.Progress, at(i.ProgressAt))
	}
	if i.Attempts > 0 && i.LastAttempts == nil {
		f.Add("Attempts", "%d", i.Attempts)
	}
	for _, a := range i.LastAttempts {
		f.Add(fmt.Sprintf("Attempt %d", a.N), "%s, %s", at(a.End), attemptText(&a))
	}
	if d := i.Dead; d != nil {
		f.Add("Dead", "%s", d.Reason)
		if !d.At.IsZero() {
			f.Add("Died", "%s, after %s", at(d.At), deliveriesOf(d))
		}
		f.Add("Origin", "%s %s", d.Origin, d.OriginID)
	}
	if i.Ack != "" {
		f.Add("Leased until", "%s", at(i.LeaseExpires))
		f.Add("Fence", "%d", i.Fence)
		if i.KeyFence > 0 {
			f.Add("Key fence", "%d", i.KeyFence)
		}
		if i.Backoff != "" {
			f.Add("Away after a nack", "%s", i.Backoff)
		}
		f.Add("Settle with", "%s", Command("ack", []string{i.Ack}))
	}
	headers := i.AllHeaders()
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[key] {
			f.Add("Header", "%s: %s", key, value)
		}
	}
	return f.String()
}

// attemptText says how an attempt ended.
func attemptText(a *client.Attempt) string {
	text := string(a.Outcome)
	if !a.Start.IsZero() {
		text += " after " + Span(a.End.Sub(a.Start).Round(time.Millisecond))
	}
	text += HeldBy(a.Holder)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

// LastAttempt says how the last attempt of a listed item ended.
func LastAttempt(l *client.Listed) string {
	n := len(l.LastAttempts)
	if n == 0 {
		return ""
	}
	return screen.Visible(attemptText(&l.LastAttempts[n-1]))
}

// Deliveries says how often an item was handed out, and how that ended.
func Deliveries(n int64, e protocol.Endings) string {
	var ended []string
	for _, one := range []struct {
		n   int64
		how string
	}{{e.Failures, "failed"}, {e.Interruptions, "interrupted"}, {e.Returns, "returned"}} {
		if one.n > 0 {
			ended = append(ended, fmt.Sprintf("%d %s", one.n, one.how))
		}
	}
	if ended == nil {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d (%s)", n, strings.Join(ended, ", "))
}

func deliveriesOf(d *protocol.Death) string {
	if d.Deliveries == 1 {
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", d.Deliveries)
}

// Line is a payload as lines of text have it: with a line feed at its end.
func Line(payload []byte) []byte {
	if bytes.HasSuffix(payload, []byte("\n")) {
		return payload
	}
	return append(payload[:len(payload):len(payload)], '\n')
}

// Harmless is a text so that it can do nothing to a terminal. Lines and tabs stay.
func Harmless(text string) string {
	var shown strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		for i, cell := range strings.Split(line, "\t") {
			if i > 0 {
				shown.WriteByte('\t')
			}
			shown.WriteString(screen.Visible(cell))
		}
		if ended {
			shown.WriteByte('\n')
		}
	}
	return shown.String()
}

// Excerpt shows the beginning of a payload on one line.
func Excerpt(payload []byte) string {
	const most = 50
	text := screen.Visible(string(payload[:min(len(payload), most)]))
	if len(payload) > most {
		text += "…"
	}
	return text
}

func HeldBy(holder string) string {
	if holder == "" {
		return ""
	}
	return ", held by " + holder
}

// pushed is the answer to a push as JSON.
type pushed struct {
	Queue     string `json:"queue"`
	ID        string `json:"id"`
	Priority  int64  `json:"priority"`
	Seq       uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Evicted   bool   `json:"evicted,omitempty"`
}

func ShownPush(queue string, a client.Pushed) pushed {
	return pushed{queue, a.ID, a.Priority, a.Seq, a.Duplicate, a.Evicted}
}

// Result is what became of an item, as it is written.
type Result struct{ protocol.ItemResult }

// ShownResult makes JSON of a result.
func ShownResult(queue, id string, from *client.Result) *Result {
	r := &Result{protocol.ItemResult{
		Queue: queue, ID: id, Outcome: from.Outcome, FinishedAt: from.FinishedAt, Deliveries: from.Deliveries, Dropped: from.Dropped,
		DeadReason: from.Reason, DeadLetter: from.DeadLetter, Next: from.Next, NextID: from.NextID,
	}}
	switch {
	case from.Outcome == protocol.FinishCancelled:
		r.DeadReason, r.CancelReason = "", from.Reason
	case from.Cause != from.Reason:
		r.DeadCause = from.Cause
	}
	r.SetBody(from.Body)
	return r
}

// Describe writes everything about a result but its bytes, for people.
func (r *Result) Describe() string {
	var f Facts
	f.Add("Outcome", "%s", r.Outcome)
	if reason := cmp.Or(r.DeadReason, r.CancelReason); reason != "" {
		f.Add("Reason", "%s", reason)
	}
	if r.DeadCause != "" {
		f.Add("Failed of", "%s", r.DeadCause)
	}
	switch {
	case r.DeadLetter != "":
		f.Add("Went to", "%s, as %s", r.DeadLetter, r.NextID)
	case r.Next != "":
		f.Add("Went to", "%s, as %s", r.Next, r.NextID)
	}
	f.Add("Finished", "%s (%s)", r.FinishedAt.Local().Format(time.RFC3339), Until(r.FinishedAt))
	f.Add("Deliveries", "%d", r.Deliveries)
	if r.Dropped {
		f.Add("Result", "dropped: the queue had no room for it")
	}
	return f.String()
}
