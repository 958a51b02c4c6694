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
	"github.com/pqbridge/pqbridge/protocol"
)

func configCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "config <queue> [<field>=<value>...]", Args: session.Arguments(1, session.AnyNumber),
		ValidArgsFunction: completing(s, completeConfig),
		Short:             "show or change the configuration of a queue",
		Long: `Shows the configuration of a queue. With fields, changes those and shows the
whole; a queue that does not exist is made. The fields:

` + helpFields(),
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

// helpFields are the lines of help about the fields.
func helpFields() string {
	const column, width = 22, 96
	var b strings.Builder
	for _, f := range protocol.ConfigFields {
		text := f.Doc
		switch {
		case f.Words != nil && f.Words[0] != "true":
			text += ": " + strings.Join(f.Words, " or ")
		case f.Max != "":
			text += "; up to " + f.Max
		}
		at := column
		fmt.Fprintf(&b, "  %-*s", column-2, f.Name)
		for _, word := range strings.Fields(text) {
			if at+1+len(word) > width {
				fmt.Fprintf(&b, "\n%*s", column, "")
				at = column
			}
			b.WriteString(" " + word)
			at += 1 + len(word)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
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
	case kind == reflect.TypeFor[protocol.Most]() && text == "":
		return "", nil
	case kind.Kind() == reflect.Int64, kind == reflect.TypeFor[protocol.Most]():
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
