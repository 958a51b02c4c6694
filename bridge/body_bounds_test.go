package bridge_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
)

// A body of the largest size that a request may have is read, and one that has a byte more is refused, with the bound
// in the text.
func TestBodyBounds(t *testing.T) {
	t.Parallel()
	c := serve(t)
	acks := c.leases(8)
	c.push("pq.jobs.push", "x")
	const kib = 1 << 10
	for _, r := range []struct {
		subject, body, header string
		allowed, beside       int // beside: of the longest text, which does not count
	}{
		{"pq.jobs.list", "{}", "", 8 * kib, 0},
		{"pq.jobs.info", "{}", "", 8 * kib, 0},
		{"pq._sys.list", "{}", "", 8 * kib, 0},
		{"pq.jobs.keys", "{}", "", 8 * kib, 0},
		{"pq.jobs.peek.min", "{}", "", 8 * kib, 0},
		{"pq.jobs.admin.remove", `{"all":true,"dry_run":true}`, "", 8 * kib, 0},
		{acks[0], `-NAK {"delay":0}`, "", 8 * kib, 0},
		{acks[1], "+TERM why", "", 8 * kib, 0},
		{acks[2], "+NXT {}", "", 8 * kib, 0},
		{"pq.jobs.ack.bundle.settle", acks[3] + " +TERM\n" + acks[4] + " +TERM", "2", 4 * kib, 0},
		{"pq.jobs.admin.config", "{}", "", 64 * kib, 0},
		{"pq.jobs.admin.key.k", "{}", "", 64 * kib, 0},
		{"pq.jobs.admin.link.l", `{"to":"t"}`, "", 64 * kib, 0},
		{"pq.jobs.schedule.s", `{"spec":"@daily"}`, "", 64 * kib, len("@daily")},
		{"pq.jobs.admin.schedule.s", `{"spec":"@daily","item":{"payload":"read the news"}}`, "", 64 * kib, len("read the news")},
	} {
		var header []string
		if r.header != "" {
			header = []string{"PQ-Bundle", r.header}
		}
		most := r.allowed + r.beside
		pad := func(size int) string {
			spaces := strings.Repeat(" ", size-len(r.body))
			if end := len(r.body) - 1; r.body[end] == '}' {
				return r.body[:end] + spaces + "}"
			}
			return r.body + spaces
		}
		m := c.refused(c.raw(r.subject, pad(most+1), header...), 413)
		if text := m.Header.Get("Nats-Service-Error"); !strings.Contains(text, "allowed are "+strconv.Itoa(r.allowed)) {
			t.Errorf("%s: %s, expected the bound %d", r.subject, text, r.allowed)
		}
		if m := c.raw(r.subject, pad(most), header...); m.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s: %d bytes: %v", r.subject, most, m.Header)
		}
	}
	for _, subject := range []string{"pq.jobs.admin.source.s", "pq.jobs.admin.source.s.resume", "pq.jobs.admin.link.l.delete", "pq.jobs.link.l", "pq.jobs.get.FQEVARUB", "pq.jobs.revoke.FQEVARUB", "pq.jobs.requeue.FQEVARUB"} {
		c.refused(c.raw(subject, "{"+strings.Repeat(" ", 64*kib)+"}"), 413)
	}
	// A line of a bundle may be longer than its part, but not longer than a settlement alone.
	for size, want := range map[int]string{8 * kib: "+OK", 8*kib + 1: "-ERR 413 -"} {
		lines := fmt.Sprintf("%s +TERM%s\n", acks[5], strings.Repeat(" ", size-len("+TERM")))
		if size > 8*kib {
			lines = strings.Replace(lines, acks[5], acks[6], 1)
		}
		answer := string(c.ask("pq.jobs.ack.bundle.settle", lines+strings.Repeat("x\n", 9), "PQ-Bundle", "10").Data)
		if first, _, _ := strings.Cut(answer, "\n"); !strings.HasPrefix(first, want) {
			t.Errorf("a line of %d bytes: %s, expected %s", size, first, want)
		}
	}
}

// What is as large as it may be is taken, even if JSON escapes all of its bytes.
func TestLargestFits(t *testing.T) {
	t.Parallel()
	if protocol.MaxSchedulePayload != schedule.MaxItem {
		t.Errorf("a schedule pushes up to %d bytes, expected %d", schedule.MaxItem, protocol.MaxSchedulePayload)
	}
	c := serve(t)
	c.push("pq.mail.push", "x")
	names := strings.Repeat(`\u0071\u002c`, 2047) + `\u0071`
	for subject, body := range map[string]string{
		"pq.jobs.admin.config":     `{"dead_letters_from":"` + names + `","hand_over":"` + names + `","backoff":[` + strings.TrimSuffix(strings.Repeat(`"\u0038\u0037\u0036\u0030\u0030\u0068",`, 32), ",") + `],"fair":"` + borders(64) + `"}`,
		"pq.jobs.admin.schedule.a": `{"spec":"@daily","item":{"payload":"` + strings.Repeat(`\u0001`, protocol.MaxSchedulePayload) + `"}}`,
		"pq.jobs.admin.schedule.b": `{"spec":"@daily","item":{"payload_base64":"` + strings.Repeat("AAAA", protocol.MaxSchedulePayload/3) + `"}}`,
		"pq.jobs.admin.schedule.c": `{"spec":"@daily","item":{"payload":"` + strings.Repeat(`\u0001`, 5_000) + `","headers":{"A":"` + strings.Repeat("a", 60_000) + `"}}}`,
		"pq.jobs.schedule.a":       `{"spec":"@daily","item":{"payload":"` + strings.Repeat(`\u0001`, protocol.MaxSchedulePayload) + `"}}`,
		"pq.mail.pop.min":          `{"msg_id":"` + strings.Repeat(`\u0061`, 1024) + `"}`,
		"pq.mail.admin.revoke":     `{"all":true,"reason":"` + strings.Repeat(`\u0001`, 1024) + `"}`,
		c.leases(1)[0]:             `-NAK {"delay":0,"reason":"` + strings.Repeat(`\u0001`, 1024) + `"}`,
	} {
		if m := c.raw(subject, body); m.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%s: %v", subject, m.Header)
		}
	}
}

// borders are n borders of classes, of the longest priorities.
func borders(n int) string {
	var all []string
	for i := range n {
		all = append(all, strconv.FormatInt(-1<<63+int64(i), 10))
	}
	return strings.Join(all, ",")
}
