package client

import (
	"context"
	"encoding/json"

	"github.com/pqbridge/pqbridge/subjects"
)

// Config is the configuration of a queue.
type Config struct {
	Priority          int64    `json:"priority"`            // of items pushed without one
	Lease             Duration `json:"lease"`               // of pops that ask for none; 0: they take items for good
	TTL               Duration `json:"ttl"`                 // of items pushed without one; 0: for ever
	MaxDeliveries     int64    `json:"max_deliveries"`      // before an item that comes back is dead; 0: no limit
	DeadLetter        string   `json:"dead_letter"`         // queue for dead items; "": <queue>-dead
	DeadLetterExpired bool     `json:"dead_letter_expired"` // items past their TTL go there instead of away
	DeadLettersFrom   string   `json:"dead_letters_from"`   // queues whose dead items this one takes, separated by commas; "*": all
	DedupWindow       Duration `json:"dedup_window"`        // how long message ids are remembered
	DedupLimit        int64    `json:"dedup_limit"`         // how many are at a time
	Ties              string   `json:"ties"`                // which of equal priorities Max takes: newest or oldest
	MaxLength         int64    `json:"max_length"`          // ready, leased and delayed items; 0: no limit
	Overflow          string   `json:"overflow"`            // what a push to a full queue does: refuse or evict
}

// ConfigChange says which fields of a [Config] to change; those that are nil
// stay as they are.
type ConfigChange struct {
	Priority          *int64    `json:"priority,omitempty"`
	Lease             *Duration `json:"lease,omitempty"`
	TTL               *Duration `json:"ttl,omitempty"`
	MaxDeliveries     *int64    `json:"max_deliveries,omitempty"`
	DeadLetter        *string   `json:"dead_letter,omitempty"`
	DeadLetterExpired *bool     `json:"dead_letter_expired,omitempty"`
	DeadLettersFrom   *string   `json:"dead_letters_from,omitempty"`
	DedupWindow       *Duration `json:"dedup_window,omitempty"`
	DedupLimit        *int64    `json:"dedup_limit,omitempty"`
	Ties              *string   `json:"ties,omitempty"`
	MaxLength         *int64    `json:"max_length,omitempty"`
	Overflow          *string   `json:"overflow,omitempty"`
}

// Config returns the queue's configuration.
func (q *Queue) Config(ctx context.Context) (Config, error) { return q.config(ctx, nil) }

// Configure changes the queue's configuration, and makes the queue if there is
// none. It returns the whole configuration as it is then.
func (q *Queue) Configure(ctx context.Context, change ConfigChange) (Config, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Config{}, err
	}
	return q.config(ctx, body)
}

func (q *Queue) config(ctx context.Context, body []byte) (config Config, err error) {
	err = q.ask(ctx, opConfig, subjects.Subject{Verb: subjects.AdminConfig}, body, &config)
	return config, err
}
