package gateway

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/testkit/expense"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// mostQuery is what is left of the 64 KiB that pqd takes for the first lines of a request.
const mostQuery = 60_000

// worst are bodies of a size that are the worst for a reader of JSON, or of lines.
func worst(size int) map[string]string {
	fill := func(size int, text string) string { return strings.Repeat(text, size/len(text)) }
	fields := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size-32; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	depth := min(9_990, size/46) // encoding/json reads no more than 10,000
	name := strings.Repeat("n", size/depth-6)
	return map[string]string{
		"arrays":      fill(size/2, "[") + fill(size/2, "]"),
		"long path":   strings.Repeat(`{"`+name+`":`, depth) + "1" + strings.Repeat("}", depth),
		"many fields": `{"a":1` + fields(`,"a%d":1`) + "}",
		"escaped":     `{"a":1` + fields(`,"\u0061%d":1`) + "}",
		"empty ones":  `{"a":[{}` + fill(size-16, ",{}") + "]}",
		"objects":     fill(size, "{}\n"),
		"long text":   `{"payload":"` + fill(size-16, "a") + `"}`,
		"escapes":     `{"payload":"` + fill(size-24, `\u0001`) + `"}`,
		"headers":     `{"headers":{"A":"b"` + fields(`,"A%d":"b"`) + "}}",
		"values":      `{"headers":{"A":["b"` + fill(size-32, `,"b"`) + "]}}",
		"items":       "[{}" + strings.Repeat(`,{"payload":"`+fill(size/1100, "a")+`"}`, 999) + "]",
		"spaces":      fill(size, " "),
		"no UTF-8":    fill(size, "\xff"),
	}
}

// largest are the largest bodies that routes take, by their names. A route with a body that is missing here fails the
// test.
var largest = map[string][]string{
	"configure":       {`{"hand_over":"` + strings.Repeat("q,", 2047) + `q","dead_letters_from":"` + strings.Repeat("q,", 2047) + `q"}`},
	"setKey":          {`{"limit":1000,"rate":"1000000/24h","weight":1000}`},
	"push":            {strings.Repeat("a", 1<<20-2<<10)},
	"pushMany":        {strings.Repeat(`{"headers":{"A":["`+strings.Repeat("a", 950)+`"]}}`+"\n", 1000), strings.Repeat(`{"headers":{"A":["`+strings.Repeat(`b","`, 150)+`b"]}}`+"\n", 1000)},
	"settle":          {`-NAK {"delay":1,"reason":"` + strings.Repeat(`\u0001`, 1024) + `"}`, "+TERM " + strings.Repeat("r", 8000), "+ACK " + strings.Repeat("r", 1<<20-2<<10)},
	"bulkRemove":      {filter},
	"bulkMove":        {filter},
	"bulkRevoke":      {filter},
	"bulkRequeue":     {filter},
	"setSchedule":     {`{"spec":"@daily","item":{"payload":"` + strings.Repeat(`\u0001`, 64<<10) + `"}}`},
	"previewSchedule": {`{"spec":"@daily","item":{"payload":"` + strings.Repeat(`\u0001`, 64<<10) + `"}}`},
	"setSource":       {`{"remote":"hub","stream":"S","filter":["` + strings.Repeat(`a","`, 12_000) + `"]}`},
	"resumeSource":    {`{"from_time":"2030-01-02T15:04:05Z"}`},
	"setLink":         {`{"to":"` + strings.Repeat("t", 60_000) + `"}`},
}

// filter is a large filter of a bulk operation.
var filter = `{"where":{"reason":"` + strings.Repeat("r", 8000) + `"}}`

// asked is a request.
type asked struct{ what, path, query, body string }

// requests are the largest requests of a route: the longest paths, queries and bodies that it may get.
func (r *route) requests(t testing.TB) (all []asked) {
	t.Helper()
	named := func(value string) string {
		segments := strings.Split(r.path, "/")
		for i, s := range segments {
			if strings.HasPrefix(s, "{") {
				segments[i] = value
			}
		}
		return strings.Join(segments, "/")
	}
	path := named("jobs")
	all = append(all, asked{"nothing", path, "", ""}, asked{"long names", named(strings.Repeat("n", 3000)), "", ""}, asked{"escaped names", named(strings.Repeat("%2F", 3000)), "", ""})
	for _, name := range r.query {
		all = append(all, asked{"long " + name, path, url.Values{name: {strings.Repeat("n", mostQuery)}}.Encode(), ""})
		all = append(all, asked{"many " + name, path, strings.Repeat("&"+name+"=A:b", mostQuery/(len(name)+5)), ""})
	}
	all = append(all, asked{"unknown parameters", path, strings.Repeat("&a=b", mostQuery/4), ""})
	if r.body == bodyNone {
		return append(all, asked{"a body", path, "", strings.Repeat("a", 1<<20)})
	}
	if largest[r.name] == nil {
		t.Errorf("%s has no entry: expected the largest bodies that it takes", r.name)
	}
	for i, body := range largest[r.name] {
		all = append(all, asked{fmt.Sprint("largest ", i), path, "", body})
	}
	for _, size := range []int{1<<20 - 2<<10, protocol.MaxScheduleBody, protocol.MaxDefinition, protocol.MaxRequestBody} {
		for what, body := range worst(size) {
			all = append(all, asked{fmt.Sprint(size>>10, " KiB of ", what), path, "", body})
		}
	}
	return all
}

// Whatever a request has, it costs no more than its bytes and the bytes of the message that it becomes, and others are served.
func TestLongest(t *testing.T) {
	s := open(t)
	client := http.Client{Timeout: testenv.Most}
	exchange := func(r *route, a asked) int {
		t.Helper()
		inside := s.wire.Load().nc.Stats()
		request, err := http.NewRequestWithContext(t.Context(), r.method, s.url+a.path+"?"+a.query, strings.NewReader(a.body))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err != nil {
			t.Fatalf("%s, %s: %v", r.name, a.what, err)
		}
		defer answer.Body.Close()
		n := int64(0)
		if answer.Header.Get("Content-Type") != "text/event-stream" { // which does not end
			if n, err = io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatalf("%s, %s: %v", r.name, a.what, err)
			}
		}
		after := s.wire.Load().nc.Stats()
		return len(a.path) + len(a.query) + len(a.body) + int(n) + int(after.OutBytes+after.InBytes-inside.OutBytes-inside.InBytes)
	}
	for _, r := range newRoutes() {
		var bytes, processor string
		var most expense.Spent
		for _, a := range r.requests(t) {
			settles := r.name == "settle" && a.query == ""
			spent, beyond := expense.Least(func() {
				if settles {
					s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
					var leased shownItem
					s.ok(&leased, "POST", "/v1/queues/jobs/pop", "")
					a.query = "ack=" + url.QueryEscape(leased.Ack)
				}
			}, func() int { return exchange(r, a) })
			if beyond != "" {
				t.Errorf("%s, %s: %s", r.name, a.what, beyond)
			}
			if spent.Bytes > most.Bytes {
				most.Bytes, bytes = spent.Bytes, a.what
			}
			if spent.Processor > most.Processor {
				most.Processor, processor = spent.Processor, a.what
			}
		}
		t.Logf("%-16s %s  %s; %s", r.name, most, bytes, processor)
		s.ok(nil, "POST", "/v1/queues/neighbour/push", "x")
		s.ok(nil, "POST", "/v1/queues/neighbour/pop", "")
		s.send("POST", "/v1/queues/jobs/purge", "") // 404 where it was deleted
	}
}
