package fdbpq

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Rows of a store may be damaged, or written by another program: reading returns the
// content or an error, and never ends the process.

var somePlace = layout.Place{Priority: -5, Suffix: string(tuple.AppendBytes(tuple.AppendInt(nil, 7), []byte("12345678")))}

// Whatever stands in the row of an item, in any of the spaces, its content can
// be asked for.
func FuzzContent(f *testing.F) {
	e := layout.Envelope{Size: 200_000, Chunks: 3, HeaderSize: 5}
	for _, space := range layout.ItemSpaces {
		b := e.Append(nil)
		if space != layout.SpaceReady {
			b = e.Append(tuple.AppendInt(tuple.AppendInt(nil, 5), 5))
		}
		f.Add(space, b, []byte("chunk"), false)
		f.Add(space, b, bytes.Repeat([]byte("chunk"), 40_000), true)
	}
	f.Add(layout.SpaceReady, (&layout.Envelope{Chunks: math.MaxInt64}).Append(nil), []byte(nil), false)
	f.Add(layout.SpaceReady, (&layout.Envelope{Chunks: -1}).Append(nil), []byte(nil), true)
	f.Add(layout.SpaceReady, (&layout.Envelope{Size: 200_000, Chunks: 3, HeaderSize: 50}).Append(nil), []byte("chunk"), true)
	f.Fuzz(func(t *testing.T, space string, b, content []byte, headers bool) {
		l, err := layout.ParseItem(space, b, somePlace)
		if err != nil || l.State == "" {
			return
		}
		load := loadContent
		if headers {
			load = func(r kv.Reader, prefix []byte, e *layout.Envelope, p layout.Place) error {
				return loadBeginning(r, prefix, e, p, 7)
			}
		}
		if err := load(chunks{content}, nil, &l.Envelope, somePlace); err != nil {
			return
		}
		if whole := int64(len(l.Headers) + len(l.Payload)); !headers && l.Chunks > 0 && whole != l.Size {
			t.Errorf("%x: %d bytes of %d", b, whole, l.Size)
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
	f.Add(ID{layout.Place{Priority: math.MaxInt64, Suffix: layout.NewSuffix(math.MaxInt64)}}.String())
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
		if _, err := id.place.Count(); err != nil {
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

// FuzzRows reads every other kind of row.
func FuzzRows(f *testing.F) {
	s, err := (&queueState{generation: 3, exists: true, paused: true, config: defaultConfig()}).pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s)
	f.Add((&rememberedPush{due: 5, id: ID{somePlace}}).pack())
	f.Add((&rememberedPop{due: 5, end: Max, band: Band{-1, 1}, lease: 5, items: 3, leases: [][]byte{[]byte("a"), nil}}).pack())
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
		return uint8(slices.IndexFunc(layout.RowKinds[:], func(kind layout.RowKind) bool { return kind.Space == space }))
	}
	e := layout.Envelope{Size: 200_000, Chunks: 3, HeaderSize: 5}
	at := somePlace.Append(tuple.AppendInt(nil, 1))
	f.Add(kindOf(layout.SpaceReady), at, e.Append(nil),
		kindOf(layout.SpaceChunk), append(tuple.AppendInt([]byte(nil), 1), layout.AppendChunkKey(nil, somePlace, 0)...), []byte("x"))
	f.Add(kindOf(layout.SpaceLeased), at, (&layout.Item{State: layout.StateLeased, Due: 5, Envelope: e}).AppendRow(nil),
		kindOf(layout.SpaceForward), at, tuple.AppendInt(nil, 5))
	f.Add(kindOf(layout.SpacePopID), tuple.AppendString(nil, "id"), (&rememberedPop{items: 1}).pack(),
		kindOf(layout.SpacePopItem), tuple.AppendInt(tuple.AppendString(nil, "id"), 0), layout.JoinPlace(somePlace, &e))
	f.Add(kindOf(layout.SpaceCounter), tuple.AppendString(tuple.AppendInt(nil, 1), "r"), []byte{1},
		kindOf(layout.SpaceTimer), layout.AppendTimerKey(nil, 5, layout.TimerLease, "jobs", 1, somePlace)[len(layout.Row(layout.SpaceTimer)):], []byte(nil))
	f.Fuzz(func(t *testing.T, firstSpace uint8, firstKey, firstValue []byte, secondSpace uint8, secondKey, secondValue []byte) {
		w := newWalk(&Store{})
		w.queues["jobs"] = &queueState{generation: 1, exists: true}
		for _, r := range []struct {
			space      uint8
			key, value []byte
		}{{firstSpace, firstKey, firstValue}, {secondSpace, secondKey, secondValue}} {
			kind := layout.RowKinds[int(r.space)%len(layout.RowKinds)]
			prefix := layout.QueueRow(kind.Space, "jobs")
			if kind.Lasts == layout.OfStore {
				prefix = layout.Row(kind.Space)
			}
			check := rowChecks[kind.Space]
			if check == nil {
				continue
			}
			pair := kv.Pair{Key: append(prefix, r.key...), Value: r.value}
			if err := w.row(kind, check, pair); err != nil {
				w.Problem("row %q: %v", pair.Key, err)
			}
		}
		w.balance()
	})
}
