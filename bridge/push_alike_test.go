package bridge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// pushedLines is what became of an item with header lines.
type pushedLines struct {
	code             int
	item             protocol.Listed
	delayed, expires bool
}

// pushLines pushes an item with header lines as they stand, and shows it. With headers of a bundle the item is in one.
func (w *wire) pushLines(lines, bundle string) (out pushedLines) {
	w.Helper()
	block, body := "NATS/1.0\r\n"+lines+"\r\n", "x"
	if bundle != "" {
		block, body = "NATS/1.0\r\n"+bundle+"\r\n", fmt.Sprintf("%d 1\n%sx\n", len(lines), lines)
	}
	var answer protocol.PushResponse
	if m := w.ask("pq.jobs.push", block, body); json.Unmarshal(m.Data, &answer) != nil {
		w.Fatalf("%q: %q, %v", lines, m.Data, m.Header)
	}
	if answer.Error != nil {
		return pushedLines{code: answer.Error.Code}
	}
	if len(answer.Items) > 0 && answer.Items[0].Error != nil {
		return pushedLines{code: answer.Items[0].Error.Code}
	}
	var page protocol.Page
	for _, state := range []string{"ready", "delayed"} {
		if err := json.Unmarshal(w.client.ask("pq.jobs.list", `{"state":"`+state+`"}`).Data, &page); err != nil {
			w.Fatal(err)
		}
		if len(page.Items) > 0 {
			break
		}
	}
	if len(page.Items) != 1 {
		w.Fatalf("%q: there are %d items", lines, len(page.Items))
	}
	w.client.ask("pq.jobs.admin.delete", "") // ids, too
	i := &page.Items[0]
	out = pushedLines{delayed: !i.Due.IsZero(), expires: !i.Expires.IsZero()}
	i.ID, i.Pushed, i.Due, i.Expires = "", time.Time{}, time.Time{}, time.Time{} // these differ
	out.item = *i
	return out
}

// The headers of an item mean the same in a message of its own and in a bundle, whatever their
// lines look like.
func TestHeadersAreAlike(t *testing.T) {
	t.Parallel()
	c := serve(t)
	w := c.wire()
	same := func(lines string) pushedLines {
		t.Helper()
		one := w.pushLines(lines, "")
		for _, bundle := range []string{"PQ-Bundle: 1\r\n", "PQ-Bundle: 1\r\nPQ-Each: true\r\n"} {
			if many := w.pushLines(lines, bundle); !reflect.DeepEqual(one, many) {
				t.Errorf("%q: a message gives %+v, with %q %+v", lines, one, bundle, many)
			}
		}
		return one
	}
	for lines, code := range map[string]int{
		"A: b\r\n": 0, "A:b\r\n": 0, "A: b\n": 0, "A:\tb\r\n": 0, "A: b  \r\n": 0, "A: b\t\r\n": 0, "A:\r\n": 0, "A: \r\n": 0,
		"A:  b\r\n": 400, "A: \tb\r\n": 400, "A:   \r\n": 400, "A: b\rc\r\n": 400, "A: b\r\r\n": 400, "A: \rb\r\n": 400,
		"A : b\r\n": 400, " A: b\r\n": 400, ": b\r\n": 400, "A\r\n": 400, "A: b\r\n c\r\n": 400, "A: b\r\n\r\nB: c\r\n": 400,
		"PQ-Priority: 5 \r\n": 0, "PQ-Priority: 5\r\nPQ-Priority: 5\r\n": 400, "PQ-Priority:\r\n": 400, "PQ-Key:  k\r\n": 400, "PQ-Key: k \r\n": 0,
		"Nats-Msg-Id: a \r\n": 0, "Nats-Msg-Id: a\r\nNats-Msg-Id: b\r\n": 400, "PQ-Id: a\r\nPQ-Id: b\r\n": 0,
		"Nats-Expected-Stream: jobs\r\nNats-Expected-Stream: jobs\r\n": 400, "Nats-Expected-Stream: jobs \r\n": 0,
		"Nats-Trace- Dest: x\r\n": 400, "Sta tus: x\r\n": 400, "A: b\r\nA: c\r\n": 0, "A(: b\r\n": 400,
	} {
		if got := same(lines); got.code != code {
			t.Errorf("%q gives %+v, expected %d", lines, got, code)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(all ...string) string { return all[rng.IntN(len(all))] }
	for range 60 {
		var lines strings.Builder
		odd := rng.IntN(4) // one line is odd: nats.go keeps no more of a block than its size
		for n := range 4 {
			name := pick("A", "B", "Season", "PQ-Priority", "PQ-Key", "PQ-Delay", "PQ-TTL", "PQ-Unique", "PQ-On-Conflict", "PQ-Result-TTL", "Nats-Msg-Id", "PQ-Id", "PQ-X", "Status", "Nats-TTL", "traceparent")
			value := pick("1", "5", "k", "30s", "keep", "a b", "", "x:y")
			colon, end := ": ", "\r\n"
			if n == odd {
				name += pick("", "", "", " ", "\x00", "(", "\x7f")
				colon = pick(":", ": ", ":\t", ":  ", " : ", ";")
				value = pick(value, value+" ", value+"\t ", "\r"+value, value+"\r"+value, value+"\x00")
				// checkBlock cannot tell a blank too many in front from a carriage return too few.
				if after := colon[1:] + value; len(after)-len(strings.TrimLeft(after, " \t")) < 2 {
					end = pick("\r\n", "\n", "\r\r\n")
				}
			}
			lines.WriteString(name + colon + value + end)
		}
		same(lines.String())
	}
}
