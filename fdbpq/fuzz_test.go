package fdbpq

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Rows of a store may be damaged, or written by another program: reading returns the
// content or an error, and never ends the process.

var somePlace = place{priority: -5, tail: string(tuple.AppendBytes(tuple.AppendInt(nil, 7), []byte("12345678")))}

// Every item is read as it was written. A row that is read as an item is written as it
// was, except for elements of a later version.
func FuzzEnvelope(f *testing.F) {
	dead := death{Reason: "why", Origin: "jobs", OriginID: "id"}
	for _, e := range []envelope{
		{}, {payload: []byte("a\x00b"), size: 3}, {size: 200_000, chunks: 3, headerSize: 5, fence: 2, idPriority: math.MinInt64},
		{headers: []byte("a: b\r\n"), headerSize: 6, size: 6, pushed: 5, expires: 6, tries: 7, dead: dead},
		{size: 3, key: "k", keyFence: 9, dead: death{Reason: "why", Origin: "jobs", OriginID: "id", At: time.Unix(5, 6), Deliveries: 16}},
		{tries: 2, endings: endings{interruptions: 3, unreceived: 999}}, {size: 3, past: past{attempts: "\x15\x01"}, dead: death{Reason: "interruptions", Interruptions: 16}},
		{headerSize: -1}, {headerSize: 2, size: 1}, {size: MaxContent + 1}, {chunks: -1}, {chunks: maxChunks + 1},
	} {
		f.Add(e.append(nil))
	}
	f.Add(tuple.AppendString(nil, "another program's"))
	f.Add([]byte("bare"))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEnvelope(b, somePlace)
		switch {
		case err != nil:
			return
		case e.foreign:
			if e.size != int64(len(e.payload)) || len(e.payload) > len(b) || e.idPriority != somePlace.priority || e.chunks != 0 {
				t.Errorf("%x is read as another program's %+v", b, e)
			}
			return
		case e.chunks < 0 || e.chunks > maxChunks || e.headerSize < 0 || e.headerSize > e.size || e.size > MaxContent:
			t.Errorf("%x is read as %+v", b, e)
		}
		if again := e.append(nil); e.chunks == 0 && !bytes.HasPrefix(b, again) {
			t.Errorf("%x is read as %+v, which is written as %x", b, e, again)
		}
	})
}

// Whatever stands in the row of an item, in any of the spaces, its content can
// be asked for.
func FuzzContent(f *testing.F) {
	e := envelope{size: 200_000, chunks: 3, headerSize: 5}
	for _, space := range itemSpaces {
		b := e.append(nil)
		if space != spaceReady {
			b = e.append(tuple.AppendInt(tuple.AppendInt(nil, 5), 5))
		}
		f.Add(space, b, []byte("chunk"), false)
		f.Add(space, b, bytes.Repeat([]byte("chunk"), 40_000), true)
	}
	f.Add(spaceReady, (&envelope{chunks: math.MaxInt64}).append(nil), []byte(nil), false)
	f.Add(spaceReady, (&envelope{chunks: -1}).append(nil), []byte(nil), true)
	f.Add(spaceReady, (&envelope{size: 200_000, chunks: 3, headerSize: 50}).append(nil), []byte("chunk"), true)
	f.Fuzz(func(t *testing.T, space string, b, content []byte, headers bool) {
		l, err := parseItemRow(space, b, somePlace)
		if err != nil || l.state == "" {
			return
		}
		load := loadContent
		if headers {
			load = func(r kv.Reader, prefix []byte, e *envelope, p place) error { return loadBeginning(r, prefix, e, p, 7) }
		}
		if err := load(chunks{content}, nil, &l.envelope, somePlace); err != nil {
			return
		}
		if whole := int64(len(l.headers) + len(l.payload)); !headers && l.chunks > 0 && whole != l.size {
			t.Errorf("%x: %d bytes of %d", b, whole, l.size)
		}
	})
}

// chunks answers every read with the same content.
type chunks struct{ content []byte }

func (c chunks) Get([]byte) ([]byte, error) { return c.content, nil }

func (c chunks) GetAll(keys [][]byte) ([][]byte, error) {
	return slices.Repeat([][]byte{c.content}, len(keys)), nil
}

func (c chunks) Range([]byte, []byte, kv.RangeOptions) ([]kv.Pair, error) { return nil, nil }

// FuzzID: one spelling an id, and it comes back.
func FuzzID(f *testing.F) {
	f.Add(ID{somePlace}.String())
	f.Add(ID{place{priority: math.MaxInt64, tail: newTail(math.MaxInt64)}}.String())
	f.Add("")
	f.Add("FQEVAgE")
	f.Add(ID{somePlace}.String()[:4] + "\n" + ID{somePlace}.String()[4:])
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err != nil {
			if err != ErrID {
				t.Errorf("%q: %v, expected %v", s, err, ErrID)
			}
			return
		}
		if id.String() != s {
			t.Errorf("%q is read as %s", s, id)
		}
		if _, err := id.place.count(); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	})
}

// FuzzLease: a lease is what its token says.
func FuzzLease(f *testing.F) {
	f.Add((&Lease{Fence: 3, generation: 2, place: somePlace, idPriority: 4}).Token())
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, token []byte) {
		l, err := ParseLease("jobs", token)
		if err != nil {
			return
		}
		if again := l.Token(); l.Queue != "jobs" || !bytes.Equal(again, token) {
			t.Errorf("%x is read as %+v, which is written as %x", token, l, again)
		}
	})
}

// FuzzTimer: what falls due is found again by its key.
func FuzzTimer(f *testing.F) {
	begin := len(row(spaceTimer))
	f.Add(appendTimerKey(nil, 5, timerLease, "jobs", 2, somePlace)[begin:])
	f.Add(idTimerKey(-5, timerPopID, "jobs", "id")[begin:])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, key []byte) {
		key = append(row(spaceTimer), key...)
		p, err := parseTimer(key)
		if err != nil {
			return
		}
		again := appendTimerKey(nil, p.due, p.kind, p.queue, p.generation, p.place)
		switch p.kind {
		case timerMsgID, timerPopID, timerRequest:
			again = idTimerKey(p.due, p.kind, p.queue, p.id)
		}
		if !bytes.HasPrefix(key, again) {
			t.Errorf("%x is read as %+v, whose key is %x", key, p, again)
		}
	})
}

// FuzzRows reads every other kind of row.
func FuzzRows(f *testing.F) {
	s, err := (&queueState{generation: 3, exists: true, paused: true, config: defaultConfig()}).pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add((&rememberedPush{due: 5, id: ID{somePlace}}).pack())
	f.Add((&rememberedPop{due: 5, end: Max, band: Band{-1, 1}, lease: 5, items: 3, leases: [][]byte{[]byte("a"), nil}}).pack())
	f.Add(joinPlace(somePlace, &envelope{payload: []byte("a")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(kind string, written []byte, err error) {
			if err == nil && !bytes.HasPrefix(b, written) {
				t.Errorf("%s %x is written as %x", kind, b, written)
			}
		}
		if s, err := parseState(b); err == nil {
			packed, err := s.pack()
			if err != nil {
				t.Errorf("state %x: %v", b, err)
			} else if again, err := parseState(packed); err != nil || *again != *s {
				t.Errorf("state %x is read as %+v, written and read as %+v, %v", b, s, again, err)
			}
		}
		if m, err := parseRememberedPush(b); err == nil {
			same("message id", m.pack(), nil)
		}
		if m, err := parseRememberedPop(b); err == nil {
			same("pop", m.pack(), nil)
		}
		if p, value, err := splitPlace(b); err == nil {
			same("kept item", append(tuple.AppendBytes(nil, p.append(nil)), value...), nil)
		}
	})
}

// FuzzConfig: what a configuration is changed to is within bounds, and reads as
// it is shown.
func FuzzConfig(f *testing.F) {
	whole, err := json.Marshal(defaultConfig())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	for _, object := range []string{
		`{"lease":"30s","ties":"oldest"}`, `{"lease":30}`, `{"Lease":"30s"}`, `{"lease":"1s","lease":"2s"}`,
		`{"max_length":1e3}`, `{"priority":-9223372036854775808}`, `{"ttl":null}`, `{}x`, `[]`, `{"dead_letter":"\u0000"}`,
	} {
		f.Add([]byte(object))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		c, err := defaultConfig().Merge(object)
		if err != nil {
			if _, ours := err.(*ConfigError); !ours {
				t.Errorf("%q: %v is no *ConfigError", object, err)
			}
			return
		}
		if err := c.check(); err != nil {
			t.Errorf("%q: %v", object, err)
		}
		shown, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := defaultConfig().Merge(shown); err != nil || again != c {
			t.Errorf("%q gives %s, which gives %+v, %v", object, shown, again, err)
		}
	})
}

// FuzzCheck: rows that are damaged are problems to [Store.Check], not its end.
func FuzzCheck(f *testing.F) {
	kindOf := func(space string) uint8 {
		return uint8(slices.IndexFunc(rowKinds[:], func(kind rowKind) bool { return kind.space == space }))
	}
	e := envelope{size: 200_000, chunks: 3, headerSize: 5}
	at := somePlace.append(tuple.AppendInt(nil, 1))
	f.Add(kindOf(spaceReady), at, e.append(nil), kindOf(spaceChunk), append(tuple.AppendInt([]byte(nil), 1), appendChunkKey(nil, somePlace, 0)...), []byte("x"))
	f.Add(kindOf(spaceLeased), at, (&located{state: StateLeased, due: 5, envelope: e}).appendRow(nil), kindOf(spaceForward), at, tuple.AppendInt(nil, 5))
	f.Add(kindOf(spacePopID), tuple.AppendString(nil, "id"), (&rememberedPop{items: 1}).pack(), kindOf(spacePopItem), tuple.AppendInt(tuple.AppendString(nil, "id"), 0), joinPlace(somePlace, &e))
	f.Add(kindOf(spaceCounter), tuple.AppendString(tuple.AppendInt(nil, 1), "r"), []byte{1}, kindOf(spaceTimer), appendTimerKey(nil, 5, timerLease, "jobs", 1, somePlace)[len(row(spaceTimer)):], []byte(nil))
	f.Fuzz(func(t *testing.T, firstSpace uint8, firstKey, firstValue []byte, secondSpace uint8, secondKey, secondValue []byte) {
		w := newWalk(&Store{})
		w.queues["jobs"] = &queueState{generation: 1, exists: true}
		for _, r := range []struct {
			space      uint8
			key, value []byte
		}{{firstSpace, firstKey, firstValue}, {secondSpace, secondKey, secondValue}} {
			kind := rowKinds[int(r.space)%len(rowKinds)]
			prefix := queueRow(kind.space, "jobs")
			if kind.lasts == ofStore {
				prefix = row(kind.space)
			}
			check := rowChecks[kind.space]
			if check == nil {
				continue
			}
			pair := kv.Pair{Key: append(prefix, r.key...), Value: r.value}
			if err := w.row(kind, check, pair); err != nil {
				w.problem("row %q: %v", pair.Key, err)
			}
		}
		w.balance()
	})
}
