package layout

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Rows of a store may be damaged, or written by another program: reading returns the
// content or an error, and never ends the process.

var somePlace = Place{Priority: -5, Suffix: string(tuple.AppendBytes(tuple.AppendInt(nil, 7), []byte("12345678")))}

// Every item is read as it was written. A row that is read as an item is written as it was, fields of later programs included.
func FuzzEnvelope(f *testing.F) {
	dead := Death{Reason: "why", Origin: "jobs", OriginID: "id"}
	for _, e := range []Envelope{
		{}, {Payload: []byte("a\x00b"), Size: 3}, {Size: 200_000, Chunks: 3, HeaderSize: 5, Fence: 2, IDPriority: math.MinInt64},
		{Headers: []byte("a: b\r\n"), HeaderSize: 6, Size: 6, PushedAt: 5, Expires: 6, Tries: 7, Dead: dead},
		{Size: 3, Key: "k", KeyFence: 9, Dead: Death{Reason: "why", Origin: "jobs", OriginID: "id", At: time.Unix(5, 6), Deliveries: 16}},
		{Tries: 2, Endings: Endings{Interruptions: 3, Unreceived: 999}}, {Size: 3, Past: Past{Attempts: "\x15\x01"}, Dead: Death{Reason: "interruptions", Interruptions: 16}},
		{Size: 3, Key: "k", Since: GivenBack, TokensBack: TokenOfQueue | TokenOfKey, Endings: Endings{Returns: 1}}, {TokensBack: TokenOfKey},
		{Size: 3, Overhead: 5, Asks: 1}, {Asks: 6}, {Asks: 7}, {Size: 3, Unique: "u", UntilLeased: true},
		{HeaderSize: -1}, {HeaderSize: 2, Size: 1}, {Size: MaxContent + 1}, {Chunks: -1}, {Chunks: MaxChunks + 1},
	} {
		f.Add(e.Append(nil))
	}
	f.Add(tuple.AppendString(nil, "another program's"))
	f.Add([]byte("bare"))
	plain := (&Envelope{Payload: []byte("a"), Size: 1}).Append(nil)
	for _, behind := range [][]int64{
		{tagUntilLeased, 2}, {tagTries, 0}, {tagFence, 2, tagTries, 2}, {tagSize, 1}, {tagChunks, 1}, {0, 1}, // no program writes that
		{tagTries, 2, tagNewest + 2, 7, tagNewest + 4, 0}, {tagNewest + 1, 7}, {tagNewest + 2}, {tagNewest + 2, 7, tagTries, 2},
	} {
		b := bytes.Clone(plain)
		for _, n := range behind {
			b = tuple.AppendInt(b, n)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEnvelope(b, somePlace)
		switch {
		case err != nil:
			return
		case e.Foreign:
			if e.Size != int64(len(e.Payload)) || len(e.Payload) > len(b) || e.IDPriority != somePlace.Priority || e.Chunks != 0 {
				t.Errorf("%x is read as another program's %+v", b, e)
			}
			return
		case e.Chunks < 0 || e.Chunks > MaxChunks || e.HeaderSize < 0 || e.HeaderSize > e.Size || e.Size > MaxContent:
			t.Errorf("%x is read as %+v", b, e)
		}
		if again := e.Append(nil); !bytes.Equal(b, again) {
			t.Errorf("%x is read as %+v, which is written as %x", b, e, again)
		}
	})
}

// FuzzResult: a result that is read is written as it was, whatever bytes are in the store.
func FuzzResult(f *testing.F) {
	for _, r := range []Result{
		{}, {How: "done", Keep: 1, Body: []byte("a\x00b"), Size: 3}, {How: "done", Keep: 6, Size: 200_000, Chunks: 3, Finished: 5, Deliveries: 2},
		{How: "dead", Keep: 3, IDPriority: math.MinInt64, Dropped: true, Reason: "why", Next: "jobs-dead", NextID: "id"},
		{How: "done", Keep: 2, Deliveries: 2, Fence: 5}, {Keep: 7}, {Keep: 1, Size: 1}, {Keep: 1, Size: -1},
	} {
		f.Add(r.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseResult(b)
		if err != nil {
			return
		}
		if r.Keep.TTL() == 0 || r.Chunks < 0 || r.Chunks > MaxChunks || r.Size < 0 || r.Size > MaxContent || r.Chunks == 0 && r.Size != int64(len(r.Body)) {
			t.Errorf("%x is read as %+v", b, r)
		}
		if again := r.Append(nil); r.Chunks == 0 && !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v, which is written as %x", b, r, again)
		}
	})
}

// FuzzTimer: what falls due is found again by its key.
func FuzzTimer(f *testing.F) {
	begin := len(Row(SpaceTimer))
	f.Add(AppendTimerKey(nil, 5, TimerLease, "jobs", 2, somePlace)[begin:])
	f.Add(IDTimerKey(-5, TimerPopID, "jobs", "id")[begin:])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, key []byte) {
		key = append(Row(SpaceTimer), key...)
		p, err := ParseTimer(key)
		if err != nil {
			return
		}
		again := AppendTimerKey(nil, p.Due, p.Kind, p.Queue, p.Generation, p.Place)
		switch p.Kind {
		case TimerMsgID, TimerPopID, TimerRequest:
			again = IDTimerKey(p.Due, p.Kind, p.Queue, p.ID)
		}
		if !bytes.HasPrefix(key, again) {
			t.Errorf("%x is read as %+v, whose key is %x", key, p, again)
		}
	})
}

// FuzzItem: the row of an item in any space is read as an item of that space, whose row is the same.
func FuzzItem(f *testing.F) {
	for _, space := range ItemSpaces {
		l := Item{State: StateReady}
		switch space {
		case SpaceDelayed:
			l.State, l.Due = StateDelayed, 5
		case SpaceLeased:
			l.State, l.Due, l.ReturnPriority = StateLeased, 5, -5
		}
		l.Payload, l.Size = []byte("a"), 1
		f.Add(space, l.AppendRow(nil))
	}
	f.Fuzz(func(t *testing.T, space string, b []byte) {
		l, err := ParseItem(space, b, somePlace)
		if err != nil || l.State == "" || l.Foreign {
			return
		}
		if l.Place != somePlace || l.Space() != space && !(l.State == StateReady && (space == SpaceReady || space == SpaceKeyed)) {
			t.Errorf("%x in the space %q is read as %+v", b, space, l)
		}
		if again := l.AppendRow(nil); !bytes.Equal(b, again) {
			t.Errorf("%x is read as %+v, which is written as %x", b, l, again)
		}
	})
}

// FuzzPlace: an item that a repeated pop gets again is read as it was kept.
func FuzzPlace(f *testing.F) {
	f.Add(JoinPlace(somePlace, &Envelope{Payload: []byte("a")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, value, err := SplitPlace(b)
		if err != nil {
			return
		}
		if again := append(tuple.AppendBytes(nil, p.Append(nil)), value...); !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v and %x, which are written as %x", b, p, value, again)
		}
	})
}

// Places are in the order of their keys.
func TestPlacesAreInTheOrderOfTheirKeys(t *testing.T) {
	t.Parallel()
	var all []Place
	for _, priority := range []int64{math.MinInt64, -256, -1, 0, 1, 255, 256, math.MaxInt64} {
		for _, count := range []int64{1, 255, 256, 1 << 40} {
			all = append(all, Place{priority, NewSuffix(count)})
		}
	}
	for i, a := range all {
		if n, err := a.Count(); err != nil || n != []int64{1, 255, 256, 1 << 40}[i%4] {
			t.Errorf("%+v has the count %d, %v", a, n, err)
		}
		for k, b := range all {
			want := 0
			switch {
			case i < k:
				want = -1
			case i > k:
				want = 1
			}
			if keys := bytes.Compare(a.Append(nil), b.Append(nil)); a.Compare(b) != want || keys != want {
				t.Errorf("%+v and %+v: %d, their keys %d; expected %d", a, b, a.Compare(b), keys, want)
			}
		}
	}
}
