package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

func configCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "config <queue> [<field>=<value>...]", Args: session.Arguments(1, session.AnyNumber),
		ValidArgsFunction: completing(s, completeConfig),
		Short:             "show or change the configuration of a queue",
		Long: `Shows the configuration of a queue. With fields, changes those and shows the
whole; a queue that does not exist is made. The fields:

  priority             of items pushed without one
  lease                of pops without one; 0s: they remove the items
  ttl                  of items pushed without one; 0s: for ever
  max_deliveries       before an item becomes a dead letter; 0: no limit
  dead_letter          queue for dead letters; empty: the queue's name and -dead
  dead_letter_expired  whether items past their ttl go there: true or false
  dead_letters_from    queues whose dead items this one takes, separated by commas; *: all
  dedup_window         how long the ids of pushes and pops are remembered
  dedup_limit          how many of them are
  ties                 which of equal priorities --max takes: newest or oldest
  max_length           of the queue, in items; 0: no limit
  max_bytes            of the queue, with 512 for each item; 0: no limit of its own
  overflow             what a push to a full queue does: refuse or evict
  key_limit            items of one key that are leased at a time; 0: no limit
  key_order            whether items of a key are handed out one after another
  fair                 keys take turns: priority, or where classes begin, as 0,100; empty: no
  rate                 of deliveries, such as 100/1m; empty: no bound
  key_rate             of deliveries of one key
  hand_over            queues that may get its leased items, separated by commas; *: all
  backoff              how long items stay away that come back from a lease, as JSON:
                       {"delay":"1s"}, or ["1s","10s"]; empty: not at all
  attempts             last ones that items remember, up to 16
  strict               whether a pop that meets a more urgent push runs again`,
		Example: `  # show it
  pq config jobs

  # lease every item, for three deliveries at most
  pq config jobs lease=5m max_deliveries=3

  # the same for another queue
  pq config copies $(pq config jobs --json | jq -r 'to_entries[]|"\(.key)=\(.value)"')`,
		RunE: func(_ *cobra.Command, args []string) error {
			change, err := parseConfig(args[1:])
			if err != nil {
				return err
			}
			q, err := s.Queue(args[0])
			if err != nil {
				return err
			}
			var config client.Config
			if len(args) > 1 {
				config, err = q.Configure(s.Context, change)
			} else {
				config, err = q.Config(s.Context)
			}
			if err != nil {
				return err
			}
			if s.Global.JSON {
				return s.PrintJSON(config)
			}
			var b strings.Builder
			for _, field := range configFields(config) {
				fmt.Fprintf(&b, "%s=%s\n", field.name, field.value)
			}
			return s.Print(b.String())
		},
	}
}

type configField struct{ name, value string }

// configFields are the fields of a configuration, as they are written.
func configFields(config client.Config) []configField {
	var fields []configField
	v := reflect.ValueOf(config)
	for i := range v.NumField() {
		fields = append(fields, configField{
			name:  v.Type().Field(i).Tag.Get("json"),
			value: fmt.Sprint(v.Field(i).Interface()),
		})
	}
	return fields
}

// parseConfig reads <field>=<value>.
func parseConfig(args []string) (change client.ConfigChange, err error) {
	object := make(map[string]any)
	kinds := make(map[string]reflect.Type)
	var names []string
	for field := range reflect.TypeFor[client.Config]().Fields() {
		name := field.Tag.Get("json")
		kinds[name] = field.Type
		names = append(names, name)
	}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		kind, known := kinds[name]
		switch {
		case !ok:
			return change, session.Usagef("%q: expected <field>=<value>", arg)
		case !known:
			return change, session.Usagef("no field %q: expected one of %s", name, strings.Join(names, ", "))
		}
		if object[name], err = configValue(kind, text); err != nil {
			return change, session.Usagef("%s: %q: %w", name, text, err)
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return change, err
	}
	return change, json.Unmarshal(text, &change)
}

func configValue(kind reflect.Type, text string) (any, error) {
	switch {
	case kind == reflect.TypeFor[client.Duration]():
		d, err := session.ParseDuration(text)
		return d.String(), err
	case kind == reflect.TypeFor[client.Backoff]() && text != "":
		if !json.Valid([]byte(text)) {
			return nil, errors.New(`expected JSON: {"delay":"1s"}, or ["1s","10s"]`)
		}
		return json.RawMessage(text), nil
	case kind.Kind() == reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, errors.New("expected an integer")
		}
		return n, nil
	case kind.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("expected true or false")
		}
		return b, nil
	}
	return text, nil
}
