package codec_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// The answer says how an item ended and where it went on, and nothing that is not so.
func TestResultHeaders(t *testing.T) {
	t.Parallel()
	display := func(at int64) time.Time { return time.Unix(at, 0).UTC() }
	for _, tc := range []struct {
		result fdbpq.Result
		want   map[string]string // besides the time
	}{
		{fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole, Deliveries: 2}, map[string]string{"PQ-Outcome": "done", "PQ-Deliveries": "2"}},
		{fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptDropped}, map[string]string{"PQ-Outcome": "done", "PQ-Deliveries": "0", "PQ-Result": "dropped"}},
		{fdbpq.Result{Finish: fdbpq.FinishDead, Kept: fdbpq.KeptWhole, Reason: "two\nlines", Cause: "no\nwood", Next: "jobs-dead", NextID: "id"},
			map[string]string{"PQ-Outcome": "dead", "PQ-Deliveries": "0", "PQ-Dead-Reason": `two\nlines`, "PQ-Dead-Cause": `no\nwood`, "PQ-Dead-Letter": "jobs-dead", "PQ-Next-Id": "id"}},
		{fdbpq.Result{Finish: fdbpq.FinishHandedOver, Kept: fdbpq.KeptWhole, Next: "mails", NextID: "id"},
			map[string]string{"PQ-Outcome": "handed_over", "PQ-Deliveries": "0", "PQ-Next": "mails", "PQ-Next-Id": "id"}},
	} {
		tc.result.Finished = 7
		tc.want["PQ-Finished-At"] = "1970-01-01T00:00:07Z"
		var w codec.HeaderWriter
		w.Reset()
		w.Result(&tc.result, display)
		got := make(map[string]string)
		for key, values := range w.Finish() {
			got[key] = values[0]
		}
		if !maps.Equal(got, tc.want) {
			t.Errorf("%+v has the headers %v, expected %v", tc.result, got, tc.want)
		}
	}
}

// A request whose only option is a wait waits for no longer than any request may, and takes no other option, and no body.
func TestReadWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		header nats.Header
		body   string
		wait   time.Duration
		code   int
	}{
		{nil, "", 0, 0}, {nats.Header{"Nats-Any": {"x"}}, "", 0, 0}, {nats.Header{"PQ-Wait": {"0s"}}, "", 0, 0}, {nats.Header{"PQ-Wait": {"5s"}}, "", 5 * time.Second, 0},
		{nats.Header{"PQ-Wait": {time.Duration(math.MaxInt64).String()}}, "", protocol.MaxWait, 0},
		{nats.Header{"PQ-Wait": {"-1s"}}, "", 0, 400}, {nats.Header{"PQ-Wait": {"5s", "5s"}}, "", 0, 400}, {nats.Header{"PQ-Wait": {"soon"}}, "", 0, 400},
		{nats.Header{"PQ-Wait": {"5s"}, "PQ-Lease": {"5s"}}, "", 0, 400}, {nats.Header{"PQ-Lease": {"5s"}}, "", 0, 400}, {nil, "body", 0, 400},
	} {
		wait, f := codec.ReadWait(&nats.Msg{Header: tc.header, Data: []byte(tc.body)}, "result")
		code := 0
		if f != nil {
			code, wait = f.Code, 0
		}
		if wait != tc.wait || code != tc.code {
			t.Errorf("%v and %q: %s, %v; expected %s, or %d", tc.header, tc.body, wait, f, tc.wait, tc.code)
		}
	}
}

// A result that came over a server with a larger max_payload is not shown where it has no room, to the byte.
func TestRoomOfResults(t *testing.T) {
	t.Parallel()
	w, err := codec.New("pq", nil, func() int64 { return 64 << 10 })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	room := 63 << 10
	for size, want := range map[int]int{0: 0, room: 0, room + 1: 413} {
		f := w.Limit.UnshowableResult("id", &fdbpq.Result{Body: slices.Repeat([]byte{0}, size)})
		if (f != nil) != (want != 0) || f != nil && f.Code != want {
			t.Errorf("a result of %d bytes: %v, expected %d", size, f, want)
		}
	}
}
