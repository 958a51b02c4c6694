package client

import (
	"context"
	"encoding/json"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Config is the configuration of a queue.
type Config = protocol.Config

// ConfigChange has the fields of a [Config] to change; nil fields stay as they are.
type ConfigChange = protocol.ConfigChange

// Config returns the queue's configuration.
func (q *Queue) Config(ctx context.Context) (Config, error) { return q.config(ctx, "config", nil) }

// Configure changes the queue's configuration, and creates the queue if necessary. It
// returns the whole new configuration.
func (q *Queue) Configure(ctx context.Context, change ConfigChange) (Config, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Config{}, err
	}
	return q.config(ctx, "configure", body)
}

func (q *Queue) config(ctx context.Context, op string, body []byte) (config Config, err error) {
	err = q.ask(ctx, op, subjects.Subject{Verb: subjects.AdminConfig}, body, &config)
	return config, err
}
