package commands

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// Salvage writes what a push has said of its item.
func TestSalvageKeepsWhatPushesSay(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	db, store := openStore(t, dir)
	want := make(map[string]string) // by field
	var item fdbpq.NewItem
	for _, h := range protocol.PushHeaders {
		if !h.Stays() {
			continue
		}
		name := h.Field()
		want[name] = "x"
		if len(h.Words) == 1 {
			want[name], name = h.Words[0], name+title(h.Words[0])
		}
		switch field := reflect.ValueOf(&item).Elem().FieldByName(name); field.Kind() {
		case reflect.Bool:
			field.SetBool(true)
		case reflect.String:
			field.SetString(want[h.Field()])
		case reflect.Int64:
			field.SetInt(7)
			if _, is := h.Type.(protocol.Duration); is {
				field.SetInt(int64(time.Minute)) // of those that are kept as they are
			}
			want[h.Field()] = fmt.Sprint(field)
		default:
			t.Fatalf("fdbpq.NewItem has no field %s for %s", name, h.Name)
		}
	}
	if err := db.Update(t.Context(), func(tx kv.Tx) error {
		_, err := store.Queue("jobs").Push(tx, item)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	to, _ := salvaged(t, dir, salvaging{page: 2})

	items, _ := readExport(t, filepath.Join(to, "jobs.jsonl"))
	if len(items) != 1 || len(want) < 3 {
		t.Fatalf("%d items are there, with %v", len(items), want)
	}
	for name, value := range want {
		if field := reflect.ValueOf(items[0]).FieldByName(name); !field.IsValid() || fmt.Sprint(field) != value {
			t.Errorf("the item has %s of %v: expected %s", name, field, value)
		}
	}
}

func title(word string) string { return string(word[0]-'a'+'A') + word[1:] }
