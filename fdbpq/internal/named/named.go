package named

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Noun is how errors call a kind of definitions, such as "link".
type Noun string

// CheckVersion returns an error unless a row has the version that this program reads.
func (n Noun) CheckVersion(version, known int64) error {
	if version != known {
		return fmt.Errorf("%s has version %d: this program reads %d", n, version, known)
	}
	return nil
}

// Pack packs the fields that an administrator sets.
func (n Noun) Pack(version int64, fields any) ([]byte, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", n, err)
	}
	return tuple.AppendBytes(tuple.AppendInt(nil, version), text), nil
}

// Parse reads the fields that Pack has packed. rest is the row behind them.
func (n Noun) Parse(row []byte, known int64, fields any) (rest []byte, err error) {
	r := tuple.Read(row)
	version, text := r.Int(), r.Bytes()
	if err := r.Err(); err != nil {
		return nil, err
	}
	if err := n.CheckVersion(version, known); err != nil {
		return nil, err
	}
	return r.Rest(), json.Unmarshal(text, fields)
}

// Births are the generations at which queues were made, as a check of rows reads them once for each queue.
type Births struct {
	DB      kv.DB
	Born    func(r kv.Reader, queue string) (int64, error) // of one queue
	NoQueue error                                          // by which Born says that there is no such queue

	known map[string]int64 // -1: there is no such queue
}

// BirthsOf are the births of the queues of a store.
func BirthsOf(store *fdbpq.Store) Births {
	return Births{
		DB: store.Inside().DB, NoQueue: fdbpq.ErrNoQueue,
		Born: func(r kv.Reader, queue string) (int64, error) { return store.Queue(queue).Born(r) },
	}
}

// ID reads of which definition a row is, and returns an error unless it may have its name and its queue lives.
func (b *Births) ID(ctx context.Context, space string, key []byte) (ID, error) {
	id, err := ParseID(space, key)
	if err == nil {
		err = CheckName(id.Name)
	}
	if err == nil {
		err = b.Check(ctx, id.Home)
	}
	return id, err
}

// Lives reports whether the queue of the home exists, and was made when the home says.
func (b *Births) Lives(ctx context.Context, h Home) (bool, error) {
	born, known := b.known[h.Queue]
	if known {
		return born == h.Born, nil
	}
	err := b.DB.View(ctx, func(r kv.Reader) (err error) {
		born, err = b.Born(r, h.Queue)
		return err
	})
	if errors.Is(err, b.NoQueue) {
		born, err = -1, nil
	}
	if err != nil {
		return false, err
	}
	if b.known == nil {
		b.known = make(map[string]int64)
	}
	b.known[h.Queue] = born
	return born == h.Born, nil
}

// Check returns an error unless the queue of the home lives.
func (b *Births) Check(ctx context.Context, h Home) error {
	lives, err := b.Lives(ctx, h)
	if err == nil && !lives {
		err = fmt.Errorf("it is of no queue that was born in %d", h.Born)
	}
	return err
}

// Bounds are how many definitions there may be.
type Bounds struct {
	Space   string // has one row for each
	Queue   int    // of a queue
	Store   int    // of a store
	TooMany error  // which an error about them wraps
}

// tenantPart is the part of a store's definitions that a tenant may have: one of so many.
const tenantPart = 10

// Room refuses one definition too many in a home. It reads by snapshot, so concurrent transactions may exceed a bound.
func (b Bounds) Room(r kv.Reader, h Home) error {
	type bound struct {
		prefix []byte
		most   int
		of     string
	}
	bounds := []bound{{h.Prefix(b.Space), b.Queue, "queue"}, {layout.Row(b.Space), b.Store, "store"}}
	if dot := strings.LastIndexByte(h.Queue, '.'); dot >= 0 {
		all := layout.QueueRow(b.Space, h.Queue[:dot+1])
		bounds = append(bounds, bound{all[:len(all)-1], b.Store / tenantPart, "tenant"})
	}
	for _, bound := range bounds {
		begin, end := tuple.Range(bound.prefix)
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: bound.most})
		if err != nil {
			return err
		}
		if len(rows) == bound.most {
			return fmt.Errorf("%w: the %s has %d, which is all it may have", b.TooMany, bound.of, bound.most)
		}
	}
	return nil
}

// Home is where the rows of a queue's definitions are. A purge leaves them there; they go with the queue.
type Home struct {
	Queue string
	Born  int64  // generation at which the queue was made
	Kind  string // in the keys of sources; "": the keys have none
}

// Prefix is the prefix of the keys in a space.
func (h Home) Prefix(space string) []byte {
	prefix := layout.GenerationPrefix(space, h.Queue, h.Born)
	if h.Kind == "" {
		return prefix
	}
	return tuple.AppendString(prefix, h.Kind)
}

// Key is the key of a definition's row in a space.
func (h Home) Key(space, name string) []byte { return tuple.AppendString(h.Prefix(space), name) }

// ParseHome reads whose a row is. rest is the key behind the queue and its birth.
func ParseHome(space string, key []byte) (h Home, rest []byte, err error) {
	r := tuple.Read(key[len(layout.Row(space)):])
	h = Home{Queue: r.Text(), Born: r.Int()}
	return h, r.Rest(), r.Err()
}

// ID is the definition of a name.
type ID struct {
	Home
	Name string
}

// ParseID reads of which definition a row is.
func ParseID(space string, key []byte) (ID, error) {
	h, rest, err := ParseHome(space, key)
	if err != nil {
		return ID{}, err
	}
	r := tuple.Read(rest)
	id := ID{h, r.Text()}
	if r.More() {
		id.Kind, id.Name = id.Name, r.Text()
	}
	return id, r.Err()
}

// MaxName bounds the bytes of a name.
const MaxName = 64

// CheckName returns an error when no definition may have the name.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, notOfName) {
		return fmt.Errorf("name %.100q: expected 1 to %d of A-Z a-z 0-9 - _", name, MaxName)
	}
	return nil
}

func notOfName(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
}

// Page returns the definitions of a queue behind a name, "" for the first ones, by their rows in a space.
func (h Home) Page(r kv.Reader, space, after string, limit int) ([]ID, error) {
	begin, end := tuple.Range(h.Prefix(space))
	if after != "" {
		begin = append(h.Key(space, after), 0)
	}
	return between(r, space, begin, end, limit)
}

// All returns the definitions of all queues, by their rows in a space.
func All(r kv.Reader, space string, limit int) ([]ID, error) {
	begin, end := tuple.Range(layout.Row(space))
	return between(r, space, begin, end, limit)
}

func between(r kv.Reader, space string, begin, end []byte, limit int) ([]ID, error) {
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	ids := make([]ID, len(rows))
	for i, row := range rows {
		if ids[i], err = ParseID(space, row.Key); err != nil {
			return nil, fmt.Errorf("damaged row %q: %w", row.Key, err)
		}
	}
	return ids, nil
}
