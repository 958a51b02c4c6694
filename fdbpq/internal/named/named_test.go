package named_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

func opened(t *testing.T) kv.DB {
	t.Helper()
	db, err := local.Open(filepath.Join(t.TempDir(), "data"), local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func change(t *testing.T, db kv.DB, fn func(kv.Tx)) {
	t.Helper()
	if err := db.Update(t.Context(), func(tx kv.Tx) error { fn(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func view(t *testing.T, db kv.DB, fn func(kv.Reader) error) {
	t.Helper()
	if err := db.View(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, may := range map[string]bool{
		"daily": true, "A-Z_09": true, strings.Repeat("a", named.MaxName): true,
		"": false, "a.b": false, "a b": false, "ä": false, strings.Repeat("a", named.MaxName+1): false,
	} {
		if err := named.CheckName(name); (err == nil) != may {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The rows of definitions lie where frozen stores have them.
func TestKeys(t *testing.T) {
	t.Parallel()
	for key, id := range map[string]named.ID{
		"\x02sd\x00\x02jobs\x00\x15\x07\x02daily\x00":              {Home: named.Home{Queue: "jobs", Born: 7}, Name: "daily"},
		"\x02sd\x00\x02jobs\x00\x15\x07\x02source\x00\x02feed\x00": {Home: named.Home{Queue: "jobs", Born: 7, Kind: "source"}, Name: "feed"},
	} {
		if got := string(id.Key(layout.SpaceSchedule, id.Name)); got != key {
			t.Errorf("%+v has the key %q, expected %q", id, got, key)
		}
		if got, err := named.ParseID(layout.SpaceSchedule, []byte(key)); err != nil || got != id {
			t.Errorf("%q is of %+v, %v; expected %+v", key, got, err, id)
		}
	}
	if _, err := named.ParseID(layout.SpaceSchedule, []byte("\x02sd\x00\x02jobs\x00\x15\x07")); err == nil {
		t.Error("a key without a name is of a definition")
	}
}

// A page begins behind a name, and has neither definitions of other queues nor of an earlier queue of the same name.
func TestPages(t *testing.T) {
	t.Parallel()
	db := opened(t)
	jobs := named.Home{Queue: "jobs", Born: 2}
	change(t, db, func(tx kv.Tx) {
		for _, h := range []named.Home{jobs, {Queue: "jobs", Born: 1}, {Queue: "mails", Born: 2}} {
			for _, name := range []string{"a", "b", "ba", "c"} {
				tx.Set(h.Key(layout.SpaceLink, name), nil)
			}
		}
	})
	names := func(ids []named.ID) (all string) {
		for _, id := range ids {
			all += fmt.Sprintf(" %s/%d/%s", id.Queue, id.Born, id.Name)
		}
		return strings.TrimSpace(all)
	}
	view(t, db, func(r kv.Reader) error {
		for _, page := range []struct {
			after string
			limit int
			want  string
		}{
			{"", 10, "jobs/2/a jobs/2/b jobs/2/ba jobs/2/c"}, {"", 2, "jobs/2/a jobs/2/b"}, {"b", 2, "jobs/2/ba jobs/2/c"}, {"bb", 9, "jobs/2/c"}, {"c", 9, ""},
		} {
			if ids, err := jobs.Page(r, layout.SpaceLink, page.after, page.limit); err != nil || names(ids) != page.want {
				t.Errorf("behind %q: %s, %v; expected %s", page.after, names(ids), err, page.want)
			}
		}
		if ids, err := named.All(r, layout.SpaceLink, 5); err != nil || names(ids) != "jobs/1/a jobs/1/b jobs/1/ba jobs/1/c jobs/2/a" {
			t.Errorf("all: %s, %v", names(ids), err)
		}
		return nil
	})
}

func TestBounds(t *testing.T) {
	t.Parallel()
	tooMany := errors.New("too many links")
	bounds := named.Bounds{Space: layout.SpaceLink, Queue: 3, Store: 50, TooMany: tooMany}
	db := opened(t)
	add := func(queue string, n int) {
		change(t, db, func(tx kv.Tx) {
			for i := range n {
				tx.Set(named.Home{Queue: queue, Born: 1}.Key(layout.SpaceLink, fmt.Sprint(i)), nil)
			}
		})
	}
	expect := func(queue, says string) {
		t.Helper()
		view(t, db, func(r kv.Reader) error {
			err := bounds.Room(r, named.Home{Queue: queue, Born: 1})
			if (err != nil) != (says != "") || err != nil && (!errors.Is(err, tooMany) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s: %v; expected %q", queue, err, says)
			}
			return nil
		})
	}
	add("jobs", 2)
	expect("jobs", "")
	add("jobs", 3)
	expect("jobs", "queue has 3")
	expect("other", "")
	add("a.jobs", 3)
	add("a.mails", 2)
	expect("a.new", "tenant has 5")
	expect("ab.new", "")
	expect("a", "")
	for i := range 14 {
		add(fmt.Sprint("q", i), 3)
	}
	expect("new", "store has 50")
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	const noun = named.Noun("link")
	type fields struct{ To string }
	row, err := noun.Pack(1, fields{"b"})
	if err != nil {
		t.Fatal(err)
	}
	var read fields
	if rest, err := noun.Parse(append(row, "more"...), 1, &read); err != nil || read.To != "b" || string(rest) != "more" {
		t.Errorf("read %+v, %q, %v", read, rest, err)
	}
	if _, err := noun.Parse(row, 2, &read); err == nil || err.Error() != "link has version 1: this program reads 2" {
		t.Errorf("another version: %v", err)
	}
	if _, err := noun.Parse(row[:len(row)-2], 1, &read); err == nil {
		t.Error("half a row can be read")
	}
}

// A check asks once for each queue, and an outage is no violation.
func TestBirths(t *testing.T) {
	t.Parallel()
	none, down := errors.New("no such queue"), errors.New("no store")
	asked := 0
	births := named.Births{DB: opened(t), NoQueue: none, Born: func(_ kv.Reader, queue string) (int64, error) {
		asked++
		switch queue {
		case "jobs":
			return 7, nil
		case "down":
			return 0, down
		}
		return 0, none
	}}
	for _, c := range []struct {
		h     named.Home
		lives bool
	}{{named.Home{Queue: "jobs", Born: 7}, true}, {named.Home{Queue: "jobs", Born: 6}, false}, {named.Home{Queue: "gone", Born: 7}, false}, {named.Home{Queue: "gone"}, false}} {
		if lives, err := births.Lives(t.Context(), c.h); err != nil || lives != c.lives {
			t.Errorf("%+v lives: %t, %v", c.h, lives, err)
		}
		if err := births.Check(t.Context(), c.h); (err == nil) != c.lives {
			t.Errorf("%+v: %v", c.h, err)
		}
	}
	for name, may := range map[string]bool{"daily": true, "../daily": false, "a\x1b": false, "": false} {
		key := named.Home{Queue: "jobs", Born: 7}.Key(layout.SpaceLink, name)
		if id, err := births.ID(t.Context(), layout.SpaceLink, key); (err == nil) != may || id.Name != name {
			t.Errorf("a row of %q is that of %+v: %v", name, id, err)
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times about two queues", asked)
	}
	if err := births.Check(t.Context(), named.Home{Queue: "down"}); !errors.Is(err, down) {
		t.Errorf("the store is down: %v", err)
	}
}
