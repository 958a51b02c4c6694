package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// eventTypes are the types of events that are for people.
var eventTypes = []string{"dead", "expired", "lease_lost", "revoked", "cancelled", "evicted", protocol.EventScheduleMissed, protocol.EventSourceStopped,
	protocol.EventSourceSkipped, protocol.EventSourcePoisoned, protocol.EventLinkStopped, protocol.EventPurged, protocol.EventQueueDeleted, protocol.EventError,
	protocol.EventActive, protocol.EventClock}

// eventsAhead is how many events may wait to be printed. Further ones are lost.
const eventsAhead = 8192

func eventsCommand(s *session.Session) *cobra.Command {
	var types []string
	var count int
	c := &cobra.Command{
		Use: "events [<queue>]", Args: session.Arguments(0, 1),
		Short: "print events as they happen",
		Long: `Prints what happens that no answer reports, from now on, of one queue or of all:
items that died (dead) or outlived their TTL (expired), leases that ran out
(lease_lost) or were taken away (revoked), items that were cancelled (cancelled) or
dropped from a full queue (evicted), queues that were purged or deleted (purged),
pushes without a reply subject that were refused (error), another pqd of a cluster
(active), times of a schedule without an item (schedule_missed), another clock of
schedules (clock), a source that has stopped (source_stopped), whose stream has lost
messages before they were read (source_skipped), or that made dead letters
(source_poisoned), a link that gives nothing until a person has looked (link_stopped), a
queue that has deleted itself (queue_deleted). Nobody keeps events: those of a time
without a connection are lost, and pq says so. Ctrl-C ends it.`,
		Example: `  # what dies in a queue
  pq events jobs --type dead

  # for programs
  pq events --json | jq -r .id`,
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range types {
				if !slices.Contains(eventTypes, name) {
					return session.Usagef("--type %q: expected %s", name, strings.Join(eventTypes, ", "))
				}
			}
			if count < 0 {
				return session.Usagef("--count %d: expected 0 or more", count)
			}
			queue := "*"
			if len(args) > 0 {
				queue = args[0]
			}
			return printEvents(s, queue, types, count)
		},
	}
	f := c.Flags()
	f.StringSliceVarP(&types, "type", "t", nil, "only of these `types`, separated by commas")
	f.IntVarP(&count, "count", "n", 0, "end after this `number` of events")
	return c
}

// printEvents prints the events of a queue, or of all queues if it is *.
func printEvents(s *session.Session, queue string, types []string, most int) error {
	if _, err := s.Connect(); err != nil {
		return err
	}
	grammar, err := subjects.New(s.Global.Prefix)
	if err != nil {
		return err
	}
	if len(types) == 0 {
		types = eventTypes
	}
	came, links := make(chan *nats.Msg, eventsAhead), make(chan error, 1)
	link := func(err error) {
		select {
		case links <- err:
		default: // what is to be said is to be said once
		}
	}
	s.NC.SetDisconnectErrHandler(func(*nats.Conn, error) { link(errEventsLost) })
	denied := s.NC.ErrorHandler()
	s.NC.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrSlowConsumer) {
			link(errEventsSlow)
			return
		}
		denied(nc, sub, err)
	})
	for _, name := range types {
		if _, err := s.NC.ChanSubscribe(strings.TrimSuffix(grammar.Events(queue), "*")+name, came); err != nil {
			return err
		}
	}
	if err := s.NC.FlushTimeout(s.Global.Timeout); err != nil {
		return err
	}
	s.Say("listening; Ctrl-C ends it")
	for n := 0; most == 0 || n < most; {
		select {
		case m := <-came:
			n++
			if err := printEvent(s, m); err != nil {
				return err
			}
		case err := <-links:
			s.Warn(err)
		case <-s.Context.Done():
			return session.Interrupted(s.Context, s.Context.Err())
		}
	}
	return nil
}

var (
	errEventsLost = errors.New("the NATS server is away: events until it is back are lost")
	errEventsSlow = errors.New("events are lost: they come faster than they can be printed")
)

// printEvent prints an event.
func printEvent(s *session.Session, m *nats.Msg) error {
	var event struct {
		protocol.ItemEvent
		Code  int    `json:"code"`
		Error string `json:"error"`
		Count int    `json:"count"`
		Node  string `json:"node"`
		Epoch uint64 `json:"epoch"`
		By    string `json:"by"`

		Name string    `json:"name"` // of a schedule, or a source
		From time.Time `json:"from"`
		To   time.Time `json:"to"`
		Text string    `json:"text"`
	}
	if err := json.Unmarshal(m.Data, &event); err != nil {
		s.Warn(fmt.Errorf("an event on %s that cannot be read: %w", screen.Visible(m.Subject), err))
		return nil
	}
	if s.Global.JSON {
		var line bytes.Buffer
		if err := json.Compact(&line, m.Data); err != nil {
			return err
		}
		return s.Print(line.String() + "\n")
	}
	kind := strings.TrimPrefix(event.Type, protocol.EventTypePrefix)
	text := []string{event.Time.Local().Format(time.TimeOnly), fmt.Sprintf("%-10s", kind)}
	switch {
	case kind == protocol.EventActive:
		text = append(text, fmt.Sprintf("%s is active, epoch %d", event.Node, event.Epoch))
	case kind == protocol.EventClock:
		text = append(text, "the clock of schedules was set by "+event.By)
	case kind == protocol.EventScheduleMissed:
		text = append(text, event.Queue, event.Name, fmt.Sprintf("times missed: %d", event.Count), event.From.UTC().Format(time.RFC3339), event.To.UTC().Format(time.RFC3339))
	case kind == protocol.EventSourceStopped, kind == protocol.EventLinkStopped:
		text = append(text, event.Queue, event.Name, event.Text)
	case kind == protocol.EventSourceSkipped, kind == protocol.EventSourcePoisoned:
		text = append(text, event.Queue, event.Name, fmt.Sprintf("messages: %d", event.Count))
	case kind == protocol.EventPurged:
		text = append(text, event.Queue, "all of its items are gone")
	case kind == protocol.EventQueueDeleted:
		text = append(text, event.Queue, "it was empty and unused")
	case kind == protocol.EventError:
		text = append(text, event.Queue, fmt.Sprintf("pushes lost: %d", event.Count), fmt.Sprintf("%s (%d)", event.Error, event.Code))
	default:
		text = append(text, event.Queue, event.ID, fmt.Sprintf("priority %d", event.Priority), fmt.Sprintf("deliveries %d", event.Deliveries))
	}
	if event.Reason != "" {
		text = append(text, event.Reason)
	}
	if kind == "dead" {
		if event.DeadLetter != "" {
			text = append(text, "→ "+event.DeadLetter)
		} else {
			text = append(text, "dropped")
		}
	}
	return s.Print(screen.Visible(strings.Join(text, "  ")) + "\n")
}
