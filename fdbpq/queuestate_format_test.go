package fdbpq_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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

// knownFrom are the fields of configurations with the format of the first program that keeps them. Those of later programs
// stand in protocol/config.go.
var knownFrom = map[string]int64{
	"priority": 1, "lease": 1, "ttl": 1, "max_deliveries": 1, "max_interruptions": 1, "dead_letter": 1, "dead_letter_expired": 1,
	"dead_letters_from": 1, "dedup_window": 1, "dedup_limit": 1, "ties": 1, "max_length": 1, "max_bytes": 1, "overflow": 1,
	"key_limit": 1, "key_order": 1, "fair": 1, "rate": 1, "key_rate": 1, "hand_over": 1, "backoff": 1, "attempts": 1, "strict": 1,
	"result_bytes": 1,
}

// keptByReleases are the fields of configurations of each release, by their names in Go.
func keptByReleases(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../e2e/testdata/releases/*/api/fdbpq.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("the API of releases: %v, %v", files, err)
	}
	kept := make(map[string][]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		release := filepath.Base(filepath.Dir(filepath.Dir(file)))
		for line := range strings.Lines(string(text)) {
			if field, is := strings.CutPrefix(line, "type Config struct, "); is {
				name, _, _ := strings.Cut(field, " ")
				kept[release] = append(kept[release], name)
			}
		}
		if len(kept[release]) == 0 {
			t.Fatalf("%s has no fields of Config", file)
		}
	}
	return kept
}

// sample is a value of a field, as JSON, that no queue has unless somebody sets it.
func sample(t *testing.T, field reflect.StructField, name string) string {
	t.Helper()
	value, is := map[string]string{
		"dead_letter": `"q-dead"`, "dead_letters_from": `"*"`, "hand_over": `"*"`, "ties": `"oldest"`, "overflow": `"evict"`,
		"fair": `"priority"`, "backoff": `["7s"]`, "max_interruptions": "7",
	}[name]
	switch {
	case is:
		return value
	case field.Type == reflect.TypeFor[fdbpq.Duration]():
		return `"7m"`
	case field.Type == reflect.TypeFor[fdbpq.Rate](), field.Type == reflect.TypeFor[fdbpq.CostRate]():
		return `"5/1m"`
	case field.Type.Kind() == reflect.Bool:
		return "true"
	case field.Type.Kind() == reflect.Int64:
		return "7"
	}
	t.Fatalf("the field %s is a text: expected a value of it in sample of fdbpq/queuestate_format_test.go, another one than its default", name)
	return ""
}

// fieldName is the name of a field of a configuration in JSON.
func fieldName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// formatWith is the format of the state of a queue in which one field is set.
func formatWith(t *testing.T, field reflect.StructField) int64 {
	t.Helper()
	name := fieldName(field)
	config, err := fdbpq.DefaultConfig().Merge(fmt.Appendf(nil, `{%q:%s}`, name, sample(t, field, name)))
	if err != nil {
		t.Fatal(err)
	}
	row, err := fdbpq.StateRow(config)
	if err != nil {
		t.Fatal(err)
	}
	format, _, err := tuple.ConsumeInt(row)
	if err != nil {
		t.Fatal(err)
	}
	return format
}

// A field of the configuration that a release does not have needs a format that no program of that release reads: the
// program would drop the field when it writes the state.
func TestNewFieldsHaveNewFormats(t *testing.T) {
	t.Parallel()
	config := reflect.TypeFor[fdbpq.Config]()
	for release, kept := range keptByReleases(t) {
		var newest int64 // that a program of the release reads
		for _, name := range kept {
			field, is := config.FieldByName(name)
			if !is {
				t.Errorf("release %s has the field %s, which is gone", release, name)
				continue
			}
			newest = max(newest, formatWith(t, field))
		}
		for field := range config.Fields() {
			if slices.Contains(kept, field.Name) {
				continue
			}
			if format := formatWith(t, field); format <= newest {
				t.Errorf("a queue with %s has a state of format %d, which programs of %s read, and they drop the field when they write the state: expected since=%d, or more, in protocol/config.go",
					fieldName(field), format, release, newest+1)
			}
		}
	}
}

// A queue without a configuration has the row that programs of 0.1.0 write: a new field is left out as long as nobody sets it.
func TestPlainQueueHasTheRowOfEarlierPrograms(t *testing.T) {
	t.Parallel()
	const config = `{"max_deliveries":16,"dedup_window":"2m0s","dedup_limit":1000000,"ties":"newest","overflow":"refuse","attempts":16}`
	want := tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(tuple.AppendInt(nil, 1), 1), 0), []byte(config))
	for _, n := range [...]int64{1, 0, 0, 0, 0} { // it was born in its first generation
		want = tuple.AppendInt(want, n)
	}
	if row, err := fdbpq.StateRow(fdbpq.DefaultConfig()); err != nil || !bytes.Equal(row, want) {
		t.Errorf("a queue without a configuration has the row %q, %v, and programs of 0.1.0 write %q: a new field has a zero that stands for its default, so that the row leaves it out", row, err, want)
	}
}

// A program refuses a queue that uses what the program does not know: it would break what the
// queue promises, or lose it.
func TestEarlierProgramsRefuse(t *testing.T) {
	t.Parallel()
	uses := make(map[string]func(f *fixture))
	formats := make(map[string]int64)
	for field := range reflect.TypeFor[fdbpq.Config]().Fields() {
		name := fieldName(field)
		value := sample(t, field, name)
		uses["config "+name] = func(f *fixture) { f.configure("q", fmt.Sprintf(`{%q:%s}`, name, value)) }
		if formats["config "+name] = knownFrom[name]; knownFrom[name] == 0 {
			formats["config "+name] = formatWith(t, field) // TestNewFieldsHaveNewFormats has it beyond those of releases
		}
	}
	for name, use := range map[string]struct {
		format int64
		fn     func(f *fixture)
	}{
		"plain items": {1, func(f *fixture) { f.push("q", fdbpq.NewItem{MsgID: "id", Delay: time.Second, TTL: time.Hour}) }},
		"keys":        {1, func(f *fixture) { f.push("q", fdbpq.NewItem{Key: "a"}) }},
		"keys of a limited queue": {1, func(f *fixture) {
			f.configure("q", `{"key_limit":1}`)
			f.push("q", fdbpq.NewItem{Key: "a"})
		}},
		"settings of a key": {1, func(f *fixture) { f.setKey("q", "a", `{"paused":true}`) }},
		"unique values":     {1, func(f *fixture) { f.push("q", fdbpq.NewItem{Unique: "u"}) }},
		"schedules":         {1, func(f *fixture) { f.schedule("q", "s", `{"spec":"@daily"}`) }},
		"unique values, imported": {1, func(f *fixture) {
			id := f.pushed("other", 0, "one")[0]
			f.imports("q", fdbpq.Import{ID: id, Unique: "u"})
		}},
		"unique values, popped again": {1, func(f *fixture) {
			f.push("q", fdbpq.NewItem{Unique: "u", Key: "a"})
			f.pop("q", fdbpq.Min, 1)
			f.purge("q")
			f.configure("q", `{"priority":3}`)
		}},
		"a backoff that was, purged": {1, func(f *fixture) {
			f.configure("q", `{"backoff":{"delay":"7s"}}`)
			f.configure("q", `{"backoff":""}`)
			f.purge("q")
			f.configure("q", `{"priority":3}`)
		}},
		"results": {1, func(f *fixture) { f.push("q", fdbpq.NewItem{ResultTTL: time.Minute}) }},
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
				for format := int64(1); format <= fdbpq.StateNewest; format++ {
					if serves, may := (earlierProgram{format}).serves(state), format >= formats[name]; serves != may {
						t.Errorf("a program that reads formats up to %d serves the queue: %t, expected %t", format, serves, may)
					}
				}
				f.another(0).counts("q") // this program serves it
			})
		})
	}
}
