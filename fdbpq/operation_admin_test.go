package fdbpq_test

import (
	"encoding/json"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func inspectOf(queue string) operation {
	return operation{
		name: "inspect " + queue,
		look: func(p *process, r kv.Reader) (outcome, error) {
			q := p.queue(queue)
			i, err := q.Inspect(r)
			if err != nil || i == nil {
				return outcome{}, err
			}
			out := outcome{OK: true, Counts: i.Counts, Config: i.Config, Tokens: i.CostTokens}
			if i.Paused {
				out.Reason = fdbpq.ReasonPaused
			}
			if i.Next != nil {
				v := viewOf(i.Next)
				v.Payload, v.Headers = "", ""
				out.Items = []itemView{v}
			}
			counts, err := q.Counts(r)
			if err == nil && counts != i.Counts {
				err = fmt.Errorf("Counts says %+v, Inspect %+v", counts, i.Counts)
			}
			return out, err
		},
		expect: func(m *model, at moment, got outcome) outcome { return m.inspect(queue, at, got) },
	}
}

func keyOf(queue, key string) operation {
	return operation{
		name: fmt.Sprintf("key %q of %s", key, queue),
		look: func(p *process, r kv.Reader) (outcome, error) {
			k, err := p.queue(queue).Key(r, key)
			return outcome{OK: err == nil, Key: keyView{k.Ready, k.Rate, k.CostRate, k.Tokens, k.CostTokens, k.WaitsFor, k.Retry}}, err
		},
		expect: func(m *model, at moment, _ outcome) outcome { return m.key(queue, key, at) },
	}
}

func configureOf(queue string, fields map[string]any, change func(*fdbpq.Config), good bool) operation {
	object, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return operation{
		name: fmt.Sprintf("configure %s %s", queue, object),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			config, err := p.queue(queue).Configure(tx, object)
			return outcome{Config: config}, err
		},
		expect: using(queue, func(m *model, at moment, _ outcome) outcome { return m.configure(queue, at, change, good) }),
	}
}

// setKeyOf sets one thing of a key, or drops it with nil.
func setKeyOf(queue, key, name string, value any, change func(*fdbpq.KeySettings)) operation {
	object, err := json.Marshal(map[string]any{name: value})
	if err != nil {
		panic(err)
	}
	return operation{
		name: fmt.Sprintf("set key %s of %s: %s", key, queue, object),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			_, err := p.queue(queue).SetKey(tx, key, object)
			return outcome{OK: err == nil}, err
		},
		expect: using(queue, func(m *model, at moment, _ outcome) outcome { return m.setKey(queue, key, at, change) }),
	}
}

func pauseOf(queue string, paused bool) operation {
	return operation{
		name: fmt.Sprintf("pause %s %v", queue, paused),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q := p.queue(queue)
			if paused {
				return outcome{}, q.Pause(tx)
			}
			return outcome{}, q.Resume(tx)
		},
		expect: using(queue, func(m *model, _ moment, _ outcome) outcome { return m.pause(queue, paused) }),
	}
}

func purgeOf(queue string, queueToo bool) operation {
	return operation{
		name:   fmt.Sprintf("purge %s, delete %v", queue, queueToo),
		purges: queue,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			q := p.queue(queue)
			purge := q.Purge
			if queueToo {
				purge = q.Delete
			}
			n, err := purge(tx)
			return outcome{N: n}, err
		},
		expect: using(queue, func(m *model, _ moment, _ outcome) outcome { return m.purge(queue, queueToo) }),
	}
}

func namesOf(limit int) operation {
	return operation{
		name: "queues",
		look: func(p *process, r kv.Reader) (outcome, error) {
			var out outcome
			after := ""
			for {
				names, err := p.store.Queues(r, after, limit)
				if err != nil || len(names) == 0 {
					return out, err
				}
				out.Events = append(out.Events, names...)
				after = names[len(names)-1]
			}
		},
		expect: func(m *model, _ moment, _ outcome) outcome { return outcome{Events: m.names()} },
	}
}
