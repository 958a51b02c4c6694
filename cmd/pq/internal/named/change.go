package named

import (
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// Schedule is the change that makes a schedule like one that was read.
func Schedule(read *client.Schedule, paused bool) client.ScheduleChange {
	return client.ScheduleChange{
		Spec: &read.Spec, Item: read.Item, Start: read.Start, End: read.End, Count: &read.Count, Jitter: &read.Jitter, Paused: &paused,
		Zone: given(read.Zone), Overlap: given(read.Overlap), CatchUp: given(read.CatchUp), Missed: given(read.Missed),
	}
}

// given is a field that was read; one that is missing leaves the default.
func given[T comparable](field T) *T {
	if field == *new(T) {
		return nil
	}
	return &field
}

// NextSchedule is the change that has a schedule go on in another queue: with the firings that are left of its count, and in the
// step of "@every".
func NextSchedule(read *client.Schedule, paused bool) client.ScheduleChange {
	change := Schedule(read, paused)
	if read.Count > 0 {
		change.Count = new(max(1, read.Count-read.Counts.Fired)) // one without a further firing is done
	}
	at := read.Next
	if at.IsZero() { // it is paused
		at = read.Last
	}
	if change.Start == nil && strings.HasPrefix(read.Spec, "@every") && !at.IsZero() {
		change.Start = &at
	}
	return change
}

// Source is the change that makes a source like one that was read.
func Source(read *client.Source, paused bool) client.SourceChange {
	change := client.SourceChange{Remote: &read.Remote, Batch: &read.Batch, Paused: &paused}
	if read.Link != "" {
		change.Queue, change.Link = &read.Queue, &read.Link
		return change
	}
	change.Stream, change.Mode, change.Filter = &read.Stream, &read.Mode, append([]string{}, read.Filter...)
	change.Start, change.Map = read.Start, make(map[string]any)
	for field, value := range read.Map {
		change.Map[field] = value
	}
	return change
}

// NextSource is the change that has a source go on in another queue: one that copies behind the last message that it was done with.
func NextSource(read *client.Source, paused bool) client.SourceChange {
	change := Source(read, paused)
	if read.Link == "" && read.Mode == protocol.SourceCopies && read.Seq > 0 {
		change.Start = fmt.Appendf(nil, `{"seq":%d}`, read.Seq+1)
	}
	return change
}

// Link is the change that makes a link like one that was read.
func Link(read *client.Link, paused bool) client.LinkChange {
	return client.LinkChange{To: &read.To, Paused: &paused}
}
