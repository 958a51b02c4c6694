package versions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// keeper is the only user that changes how a queue behaves.
type keeper struct {
	*user
	fields   map[string]bool // of a configuration that both programs know
	config   map[string]any  // as the queue said when it was changed last
	weights  map[string]int  // of keys
	pausedAt span            // when the queue was paused; 0: it is not
}

// settings are the values that a field of the configuration takes, as JSON. The first one keeps no item from being popped.
var settings = map[string][]string{
	"max_deliveries":      {"0", "5", "16"}, // not below fewest
	"max_interruptions":   {`""`, "0", "5"},
	"dead_letter_expired": {"false", "true"},
	"dedup_window":        {`"2m"`, `"10m"`, `"1h"`},
	"ties":                {`"newest"`, `"oldest"`},
	"max_length":          {"0", "1000000"},
	"max_bytes":           {"0", "1000000000"},
	"overflow":            {`"refuse"`, `"evict"`},
	"key_limit":           {"0", "1", "3"},
	"key_order":           {"false", "true"},
	"fair":                {`""`, `"priority"`, `"0,5"`},
	"rate":                {`""`, `"2000/1s"`},
	"key_rate":            {`""`, `"500/1s"`},
	"hand_over":           {`"*"`, `""`},
	"backoff":             {`""`, `{"delay":"50ms"}`, `["20ms","100ms"]`},
	"attempts":            {"16", "3", "0"},
	"strict":              {"false", "true"},
	"lease":               {`"0s"`, `"2s"`},
	"ttl":                 {`"0s"`, `"1h"`},
	"priority":            {"0", "3"},
}

// mind does something to the queue.
func (k *keeper) mind() {
	switch n := k.random.IntN(10); {
	case k.pausedAt != span{}:
		k.resume()
	case n < 2:
		call := k.journal.now()
		k.ask("pq."+k.queue+".admin.pause", "")
		k.pausedAt = span{call, k.journal.now()}
	case n < 4:
		k.requeue()
	case n < 6:
		k.weigh()
	default:
		names := slices.Sorted(maps.Keys(settings))
		field := names[k.random.IntN(len(names))]
		k.configure(map[string]string{field: settings[field][k.random.IntN(len(settings[field]))]})
	}
}

func (k *keeper) resume() {
	call := k.journal.now()
	k.ask("pq."+k.queue+".admin.resume", "")
	k.journal.note(func() {
		k.journal.pauses = append(k.journal.pauses, pause{k.queue, span{k.pausedAt.answer, call}})
	})
	k.pausedAt = span{}
}

// configure changes fields that both programs know. The queue has to say what it said after the last change.
func (k *keeper) configure(values map[string]string) {
	if k.config != nil {
		k.compare("the configuration of "+k.queue, k.config, k.answer("pq."+k.queue+".admin.config", ""))
	}
	change := make(map[string]json.RawMessage)
	for field, value := range values {
		if k.fields[field] {
			change[field] = json.RawMessage(value)
		}
	}
	body, err := json.Marshal(change)
	if err != nil {
		k.Fatal(err)
	}
	k.config = k.answer("pq."+k.queue+".admin.config", string(body))
}

// answer is the JSON object of an answer.
func (k *keeper) answer(subject, body string) (object map[string]any) {
	reply, _ := k.ask(subject, body)
	if err := json.Unmarshal(reply.Data, &object); err != nil || code(reply) != "" {
		k.Errorf("%s %s: %v %s, %v", subject, body, reply.Header, reply.Data, err)
	}
	return object
}

func (k *keeper) compare(what string, expected, found map[string]any) {
	for field, value := range expected {
		if k.fields[field] && !reflect.DeepEqual(value, found[field]) {
			k.journal.note(func() {
				k.journal.wrong = append(k.journal.wrong, fmt.Sprintf("%s: %s is %v, and nobody has changed it from %v", what, field, found[field], value))
			})
		}
	}
}

// requeue brings dead letters back.
func (k *keeper) requeue() {
	for body := `{"all":true}`; ; {
		var answer struct{ Next string }
		reply, _ := k.ask("pq."+k.queue+"-dead.admin.requeue", body)
		if code(reply) == "404" {
			return // nothing has died yet
		}
		if err := json.Unmarshal(reply.Data, &answer); err != nil || code(reply) != "" {
			k.Errorf("requeue of %s: %v %s, %v", k.queue, reply.Header, reply.Data, err)
			return
		}
		if answer.Next == "" {
			return
		}
		body = fmt.Sprintf(`{"all":true,"after":%q}`, answer.Next)
	}
}

// weigh gives a key a weight, which it keeps.
func (k *keeper) weigh() {
	key, subject := fmt.Sprint("key-", k.random.IntN(6)), ""
	subject = "pq." + k.queue + ".admin.key." + key
	if before := k.weights[key]; before > 0 {
		if found := k.answer(subject, "")["weight"]; found != float64(before) {
			k.journal.note(func() {
				k.journal.wrong = append(k.journal.wrong, fmt.Sprintf("the weight of %s in %s is %v, and was set to %d", key, k.queue, found, before))
			})
		}
	}
	k.weights[key] = 1 + k.random.IntN(9)
	k.answer(subject, `{"weight":`+strconv.Itoa(k.weights[key])+`}`)
}

// end has the queue hand out all that it has.
func (k *keeper) end() {
	if k.pausedAt != (span{}) {
		k.resume()
	}
	first := make(map[string]string)
	for field, values := range settings {
		first[field] = values[0]
	}
	k.configure(first)
	k.drain()
}
