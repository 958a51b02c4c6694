package chain

import (
	"bytes"
	"testing"
)

// chainOf returns the head of a log with a genesis, an epoch and a record, and the writer
// of the epoch.
func chainOf(t *testing.T) (Head, ID) {
	t.Helper()
	process := ID{1}
	h := Head{Identity: "log"}
	h = follow(t, h, Record{Store: ID{9}, Generation: 1, Process: process, Kind: Genesis})
	h = follow(t, h, h.Next(process, Epoch, []byte("a")))
	return follow(t, h, h.Next(process, Changes, []byte{0})), process
}

func follow(t *testing.T, h Head, r Record) Head {
	t.Helper()
	next, _, err := h.After(r.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// An entry continues the chain in all respects, or not at all.
func TestRecordsThatDoNotFollow(t *testing.T) {
	t.Parallel()
	h, process := chainOf(t)
	for name, change := range map[string]func(*Record){
		"another store":        func(r *Record) { r.Store[0]++ },
		"another generation":   func(r *Record) { r.Generation++ },
		"an older epoch":       func(r *Record) { r.Epoch-- },
		"a later epoch":        func(r *Record) { r.Epoch++ },
		"a number again":       func(r *Record) { r.Number-- },
		"a number left out":    func(r *Record) { r.Number++ },
		"another process":      func(r *Record) { r.Process[0]++ },
		"another entry before": func(r *Record) { r.Before[0]++ },
		"an unknown kind":      func(r *Record) { r.Kind = 77 },
		"a second genesis":     func(r *Record) { r.Kind = Genesis },
		"an epoch left out":    func(r *Record) { r.Kind, r.Epoch, r.Number = Epoch, r.Epoch+2, 0 },
	} {
		r := h.Next(process, Changes, []byte{0})
		change(&r)
		if _, _, err := h.After(r.Encode()); err == nil {
			t.Errorf("%s: the record was accepted", name)
		}
	}
	released := follow(t, h, h.Next(process, Release, nil))
	if _, _, err := released.After(released.Next(process, Changes, []byte{0}).Encode()); err == nil {
		t.Error("a record of a released epoch was accepted")
	}
	follow(t, released, released.Next(ID{2}, Epoch, []byte("b")))
}

// No flipped bit of a record goes unnoticed, nor a record that is cut short.
func TestFlippedBitsOfARecord(t *testing.T) {
	t.Parallel()
	h, process := chainOf(t)
	entry := h.Next(process, Changes, []byte("\x00some changes")).Encode()
	for bit := range 8 * len(entry) {
		bad := bytes.Clone(entry)
		bad[bit/8] ^= 1 << (bit % 8)
		if _, _, err := h.After(bad); err == nil {
			t.Errorf("bit %d was flipped, and the record accepted", bit)
		}
	}
	for n := range entry {
		if _, _, err := h.After(entry[:n]); err == nil {
			t.Errorf("a record of %d bytes instead of %d was accepted", n, len(entry))
		}
	}
}

// Parts make a transaction only in their order, and a first part begins anew.
func TestParts(t *testing.T) {
	t.Parallel()
	changes := bytes.Repeat([]byte("0123456789"), 100)
	parts := Split(changes, 300)
	if len(parts) < 3 {
		t.Fatalf("%d parts", len(parts))
	}
	var a Parts
	for _, p := range append([][]byte{parts[0], parts[1]}, parts...) {
		if err := a.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(a.Changes, changes) {
		t.Errorf("the parts make %q", a.Changes)
	}
	for _, wrong := range [][][]byte{{parts[1]}, {parts[0], parts[2]}, {parts[0], parts[1], parts[1]}, {nil}} {
		var a Parts
		var err error
		for _, p := range wrong {
			if err == nil {
				err = a.Add(p)
			}
		}
		if err == nil {
			t.Errorf("%d parts in a wrong order were accepted", len(wrong))
		}
	}
	h, _ := chainOf(t)
	h.Released = true
	if again, err := DecodeHead(h.Encode()); err != nil || again != h {
		t.Errorf("a position became %+v, %v", again, err)
	}
}
