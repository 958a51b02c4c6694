package fdbpq_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// earlierProgram is a program that reads the states of queues up to a format. It ignores fields
// of configurations that it does not know, and drops them when it writes the state.
type earlierProgram struct{ format int64 }

func (e earlierProgram) serves(state []byte) bool {
	format, _, err := tuple.ConsumeInt(state)
	return err == nil && format >= 1 && format <= e.format
}

// knownFrom are the fields of configurations with the format of the first program that keeps them.
var knownFrom = map[string]int64{
	"priority": 1, "lease": 1, "ttl": 1, "max_deliveries": 1, "dead_letter": 1, "dead_letter_expired": 1,
	"dedup_window": 1, "dedup_limit": 1, "ties": 1, "max_length": 1, "overflow": 1,
	"dead_letters_from": 4, "hand_over": 4, "max_bytes": 4, "key_limit": 4, "key_order": 4, "strict": 4,
	"fair": 3, "rate": 3, "key_rate": 3,
	"backoff": 5, "attempts": 1,
	"max_interruptions": 6,
}

// A program refuses a queue that uses what the program does not know: it would break what the
// queue promises, or lose it.
func TestEarlierProgramsRefuse(t *testing.T) {
	t.Parallel()
	fields := reflect.TypeFor[fdbpq.Config]()
	uses := make(map[string]func(f *fixture))
	formats := make(map[string]int64)
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		format, listed := knownFrom[name]
		if !listed {
			t.Fatalf("the field %s is new: expected the format of the first program that knows it", name)
		}
		value, is := map[string]string{
			"dead_letter": `"q-dead"`, "dead_letters_from": `"*"`, "hand_over": `"*"`, "ties": `"oldest"`, "overflow": `"evict"`,
			"fair": `"priority"`, "rate": `"5/1m"`, "key_rate": `"5/1m"`, "lease": `"7s"`, "ttl": `"7s"`, "dedup_window": `"7s"`,
			"backoff": `["7s"]`,
		}[name]
		switch {
		case is:
		case fields.Field(i).Type.Kind() == reflect.Bool:
			value = "true"
		default:
			value = "7"
		}
		uses["config "+name] = func(f *fixture) { f.configure("q", fmt.Sprintf(`{%q:%s}`, name, value)) }
		formats["config "+name] = format
	}
	for name, use := range map[string]struct {
		format int64
		fn     func(f *fixture)
	}{
		"plain items": {1, func(f *fixture) { f.push("q", fdbpq.NewItem{MsgID: "id", Delay: time.Second, TTL: time.Hour}) }},
		"keys":        {2, func(f *fixture) { f.push("q", fdbpq.NewItem{Key: "a"}) }},
		"keys of a limited queue": {2, func(f *fixture) {
			f.configure("q", `{"key_limit":1}`)
			f.push("q", fdbpq.NewItem{Key: "a"})
		}},
		"settings of a key": {3, func(f *fixture) { f.setKey("q", "a", `{"paused":true}`) }},
		"unique values":     {4, func(f *fixture) { f.push("q", fdbpq.NewItem{Unique: "u"}) }},
		"schedules":         {5, func(f *fixture) { f.schedule("q", "s", `{"spec":"@daily"}`) }},
		"unique values, imported": {4, func(f *fixture) {
			id := f.pushed("other", 0, "one")[0]
			f.imports("q", fdbpq.Import{ID: id, Unique: "u"})
		}},
		"unique values, popped again": {4, func(f *fixture) {
			f.push("q", fdbpq.NewItem{Unique: "u", Key: "a"})
			f.pop("q", fdbpq.Min, 1)
			f.purge("q")
			f.configure("q", `{"priority":3}`)
		}},
		"a backoff that was, purged": {5, func(f *fixture) {
			f.configure("q", `{"backoff":{"delay":"7s"}}`)
			f.configure("q", `{"backoff":""}`)
			f.purge("q")
			f.configure("q", `{"priority":3}`)
		}},
		"attempts and holders": {1, func(f *fixture) {
			f.push("q", fdbpq.NewItem{})
			f.update(func(tx kv.Tx) error {
				popped, err := f.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1, Holders: []string{"w"}}, time.Minute)
				if err == nil {
					_, err = f.Queue("q").Nack(tx, *popped.Items[0].Lease, fdbpq.Nack{})
				}
				return err
			})
		}},
	} {
		uses[name], formats[name] = use.fn, use.format
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				use(f)
				states := f.rows("q")
				state := states[len(states)-1].Value // of the last name
				for format := int64(1); format <= 6; format++ {
					if serves, may := (earlierProgram{format}).serves(state), format >= formats[name]; serves != may {
						t.Errorf("a program that reads formats up to %d serves the queue: %t, expected %t", format, serves, may)
					}
				}
				f.another(0).counts("q") // this program serves it
			})
		})
	}
}
