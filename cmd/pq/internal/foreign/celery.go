package foreign

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/pqbridge/pqbridge/client"
)

// celery is a queue of Celery on Redis, as kombu has it: a list for each priority, and a hash of
// what workers hold. The items are those that the transport of pqbridge's Python client makes.
type celery struct {
	*database
	Options
	queue string
}

func openCelery(queue string, o Options) (Source, error) {
	r, err := dialRedis(o.Redis)
	if err != nil {
		return nil, err
	}
	return &celery{r, o, queue}, nil
}

// separator stands between the parts of a key, and before the priority in the name of a list.
const separator = "\x06\x16"

// mostPriority is the least urgent priority of Celery on Redis.
const mostPriority = 9

// lists are the keys of the queue's lists, the most urgent first.
func (c *celery) lists() []string {
	lists := []string{c.Prefix + c.queue}
	for priority := 1; priority <= mostPriority; priority++ {
		lists = append(lists, c.Prefix+c.queue+separator+strconv.Itoa(priority))
	}
	return lists
}

func (c *celery) Census(ctx context.Context) (found Census, err error) {
	for _, list := range c.lists() {
		n, err := c.count(ctx, "LLEN", list)
		if err != nil {
			return found, err
		}
		found.Jobs += n
	}
	err = c.held(ctx, func(string, *celeryMessage) error {
		found.Held++
		return nil
	})
	if c.Held {
		found.Jobs += found.Held
	}
	return found, err
}

func (c *celery) Each(ctx context.Context, job func(Job) error) error {
	give := func(m *celeryMessage) error {
		item, wrong := m.item()
		return job(Job{item, "task " + cmp.Or(m.headers.ID, m.tag), wrong})
	}
	if c.Held {
		held := make(map[string]*celeryMessage)
		err := c.held(ctx, func(tag string, m *celeryMessage) error {
			held[tag] = m
			return nil
		})
		if err != nil {
			return err
		}
		for _, tag := range slices.Sorted(maps.Keys(held)) {
			if err := give(held[tag]); err != nil {
				return err
			}
		}
	}
	for _, list := range c.lists() {
		err := c.fromTheEnd(ctx, list, func(texts []string) error {
			for _, text := range texts {
				m, err := parseCelery([]byte(text))
				if err == nil {
					err = give(m)
				} else {
					err = job(Job{&client.Import{Payload: []byte(text)}, "message", err})
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// held calls each with the messages of the queue that workers hold. These are in one hash for all
// queues, with the exchange and the routing key by which they came.
func (c *celery) held(ctx context.Context, each func(tag string, m *celeryMessage) error) error {
	of := make(map[[2]string]bool) // whether an exchange and a routing key lead to the queue
	return c.eachField(ctx, c.Prefix+"unacked", func(tag, value string) error {
		var parts []json.RawMessage
		var way [2]string
		if err := json.Unmarshal([]byte(value), &parts); err != nil || len(parts) != 3 ||
			json.Unmarshal(parts[1], &way[0]) != nil || json.Unmarshal(parts[2], &way[1]) != nil {
			return fmt.Errorf("the hash unacked has %.100q: expected a message, an exchange and a routing key", value)
		}
		leads, known := of[way]
		if !known {
			var err error
			if leads, err = c.leads(ctx, way[0], way[1]); err != nil {
				return err
			}
			of[way] = leads
		}
		if !leads {
			return nil
		}
		m, err := parseCelery(parts[0])
		if err == nil {
			err = each(tag, m)
		}
		return err
	})
}

// leads reports whether messages to an exchange with a routing key come to the queue.
func (c *celery) leads(ctx context.Context, exchange, key string) (bool, error) {
	bindings, err := redis.Strings(c.do(ctx, "SMEMBERS", c.Prefix+"_kombu.binding."+exchange))
	if err != nil {
		return false, err
	}
	for _, b := range bindings {
		if parts := strings.Split(b, separator); len(parts) == 3 && parts[2] == c.queue && (parts[0] == key || parts[1] != "") {
			return true, nil
		}
	}
	return len(bindings) == 0 && key == c.queue, nil
}

// celeryMessage is a message of kombu. What the import does not look at stays as it is.
type celeryMessage struct {
	fields, properties map[string]json.RawMessage
	headers            struct {
		ID           string  `json:"id"`
		Task         string  `json:"task"`
		ETA          *string `json:"eta"`
		Expires      *string `json:"expires"`
		IgnoreResult bool    `json:"ignore_result"`
	}
	tag string
}

func parseCelery(text []byte) (*celeryMessage, error) {
	var m celeryMessage
	err := json.Unmarshal(text, &m.fields)
	for name, to := range map[string]any{"properties": &m.properties, "headers": &m.headers} {
		if value := m.fields[name]; err == nil && value != nil {
			err = json.Unmarshal(value, to)
		}
	}
	if err == nil {
		err = json.Unmarshal(m.properties["delivery_tag"], &m.tag)
	}
	if err != nil || m.tag == "" {
		return nil, fmt.Errorf("found %.100q: expected a message of kombu", text)
	}
	return &m, nil
}

// item is a message as an item. On Redis low priorities are urgent, and on pqd, for Celery, high
// ones: the message gets the one by which its task stays where it is when it is sent again.
func (m *celeryMessage) item() (*client.Import, error) {
	item := &client.Import{Unique: cmp.Or(m.headers.ID, m.tag), UniqueUntil: client.UntilLeased}
	var err error
	if item.Payload, err = json.Marshal(m.fields); err != nil {
		return item, err
	}
	var priority int64
	if text := m.properties["priority"]; text != nil && string(text) != "null" {
		if err := json.Unmarshal(text, &priority); err != nil {
			return item, fmt.Errorf("priority of the task %s is %s: expected a number", m.headers.ID, text)
		}
	}
	m.properties["priority"] = json.RawMessage(strconv.FormatInt(-priority, 10))
	if m.fields["properties"], err = json.Marshal(m.properties); err != nil {
		return item, err
	}
	if item.Payload, err = json.Marshal(m.fields); err != nil {
		return item, err
	}
	item.Priority = priority
	if m.headers.ETA != nil {
		if item.NotBefore, err = celeryTime(*m.headers.ETA); err != nil {
			return item, fmt.Errorf("eta of the task %s: %w", m.headers.ID, err)
		}
	}
	if m.headers.Expires != nil && m.headers.IgnoreResult {
		// Somebody who waits for the result learns from a worker that the task has expired.
		if item.Expires, err = celeryTime(*m.headers.Expires); err != nil {
			return item, fmt.Errorf("expires of the task %s: %w", m.headers.ID, err)
		}
	}
	return item, nil
}

// celeryTime reads a time of a header. One without a zone is in UTC, as Celery has it unless
// enable_utc is off.
func celeryTime(text string) (t time.Time, err error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err = time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return t, errors.New("expected a time such as 2030-01-02T15:04:05+00:00, found " + strconv.Quote(text))
}
