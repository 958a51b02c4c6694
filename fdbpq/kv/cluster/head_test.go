package cluster

import (
	"bytes"
	"testing"
)

// chainOf returns the head of a log with a genesis, an epoch and a record, and the writer
// of the epoch.
func chainOf(t *testing.T) (head, id) {
	t.Helper()
	process := id{1}
	h := head{Identity: "log"}
	h = follow(t, h, record{store: id{9}, generation: 1, process: process, kind: kindGenesis})
	h = follow(t, h, h.next(process, kindEpoch, []byte("a")))
	return follow(t, h, h.next(process, kindChanges, []byte{0})), process
}

func follow(t *testing.T, h head, r record) head {
	t.Helper()
	next, _, err := h.after(r.encode())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// An entry continues the chain in all respects, or not at all.
func TestRecordsThatDoNotFollow(t *testing.T) {
	t.Parallel()
	h, process := chainOf(t)
	for name, change := range map[string]func(*record){
		"another store":        func(r *record) { r.store[0]++ },
		"another generation":   func(r *record) { r.generation++ },
		"an older epoch":       func(r *record) { r.epoch-- },
		"a later epoch":        func(r *record) { r.epoch++ },
		"a number again":       func(r *record) { r.number-- },
		"a number left out":    func(r *record) { r.number++ },
		"another process":      func(r *record) { r.process[0]++ },
		"another entry before": func(r *record) { r.before[0]++ },
		"an unknown kind":      func(r *record) { r.kind = 77 },
		"a second genesis":     func(r *record) { r.kind = kindGenesis },
		"an epoch left out":    func(r *record) { r.kind, r.epoch, r.number = kindEpoch, r.epoch+2, 0 },
	} {
		r := h.next(process, kindChanges, []byte{0})
		change(&r)
		if _, _, err := h.after(r.encode()); err == nil {
			t.Errorf("%s: the record was accepted", name)
		}
	}
	released := follow(t, h, h.next(process, kindRelease, nil))
	if _, _, err := released.after(released.next(process, kindChanges, []byte{0}).encode()); err == nil {
		t.Error("a record of a released epoch was accepted")
	}
	follow(t, released, released.next(id{2}, kindEpoch, []byte("b")))
}

// No flipped bit of a record goes unnoticed, nor a record that is cut short.
func TestFlippedBitsOfARecord(t *testing.T) {
	t.Parallel()
	h, process := chainOf(t)
	entry := h.next(process, kindChanges, []byte("\x00some changes")).encode()
	for bit := range 8 * len(entry) {
		bad := bytes.Clone(entry)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, _, err := h.after(bad); err == nil {
			t.Errorf("bit %d was flipped, and the record accepted", bit)
		}
	}
	for n := range entry {
		if _, _, err := h.after(entry[:n]); err == nil {
			t.Errorf("a record of %d bytes instead of %d was accepted", n, len(entry))
		}
	}
}

// Parts make a transaction only in their order, and a first part begins anew.
func TestParts(t *testing.T) {
	t.Parallel()
	changes := bytes.Repeat([]byte("0123456789"), 100)
	parts := splitChanges(changes, 300)
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	var a assembly
	for _, p := range append([][]byte{parts[0], parts[1]}, parts...) {
		if err := a.add(p); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.changes, changes) {
		t.Errorf("the parts make %q", a.changes)
	}
	for _, wrong := range [][][]byte{{parts[1]}, {parts[0], parts[2]}, {parts[0], parts[1], parts[1]}, {nil}} {
		var a assembly
		var err error
		for _, p := range wrong {
			if err == nil {
				err = a.add(p)
			}
		}
		if err == nil {
			t.Errorf("%d parts in a wrong order were accepted", len(wrong))
		}
	}
	h, _ := chainOf(t)
	h.Released = true
	if again, err := decodeHead(h.encode()); err != nil || again != h {
		t.Errorf("a position became %+v, %v", again, err)
	}
}
