package protocol

import (
	"encoding/json"
	"time"
)

// ScheduleItem is the item that a schedule pushes.
type ScheduleItem struct {
	Headers  map[string][]string `json:"headers,omitempty"`
	Payload  *string             `json:"payload,omitempty"`        // the payload, if it is UTF-8
	Base64   []byte              `json:"payload_base64,omitempty"` // the payload, if it is not UTF-8
	Priority *int64              `json:"priority,omitempty"`       // nil: the queue's default
	Key      string              `json:"key,omitempty"`
	Weight   int64               `json:"weight,omitempty"`
	Cost     int64               `json:"cost,omitempty"` // of a delivery; 0: 1
	TTL      Duration            `json:"ttl,omitzero"`
}

// Schedule is a schedule as the store has it.
type Schedule struct {
	Name    string        `json:"name"`
	Spec    string        `json:"spec"`
	Zone    string        `json:"zone"`
	Item    *ScheduleItem `json:"item,omitempty"` // missing in lists
	Start   *time.Time    `json:"start,omitempty"`
	End     *time.Time    `json:"end,omitempty"`
	Count   int64         `json:"count"`
	Overlap string        `json:"overlap"`
	CatchUp Duration      `json:"catch_up"`
	Missed  string        `json:"missed"`
	Jitter  Duration      `json:"jitter"`
	Paused  bool          `json:"paused"`

	Next   time.Time     `json:"next,omitzero"` // the next time; zero: there is none, or the schedule is paused
	Due    time.Time     `json:"due,omitzero"`  // when it fires for Next
	Last   time.Time     `json:"last,omitzero"` // the last time that fired
	Done   bool          `json:"done,omitempty"`
	Full   bool          `json:"full,omitempty"` // the time has come, and the queue is full
	Counts ScheduleCount `json:"counts"`
	Times  []time.Time   `json:"times,omitempty"` // the next times; missing in lists
}

// ScheduleCount says how many times of a schedule fired, and how many passed without an item.
type ScheduleCount struct {
	Fired      int64 `json:"fired"`
	Missed     int64 `json:"missed"`
	Overlapped int64 `json:"overlapped"`
}

// ScheduleChange has the fields of a schedule to change. Nil fields stay as they are.
type ScheduleChange struct {
	Spec    *string       `json:"spec,omitempty"`
	Zone    *string       `json:"zone,omitempty"`
	Item    *ScheduleItem `json:"item,omitempty"` // the new item; it replaces the old one as a whole
	Start   *time.Time    `json:"start,omitempty"`
	End     *time.Time    `json:"end,omitempty"`
	Count   *int64        `json:"count,omitempty"`
	Overlap *string       `json:"overlap,omitempty"`
	CatchUp *Duration     `json:"catch_up,omitempty"`
	Missed  *string       `json:"missed,omitempty"`
	Jitter  *Duration     `json:"jitter,omitempty"`
	Paused  *bool         `json:"paused,omitempty"`
	Drop    []string      `json:"-"` // names of the bounds to remove: start, end
}

// MarshalJSON implements json.Marshaler: a bound that is dropped is null.
func (c ScheduleChange) MarshalJSON() ([]byte, error) {
	type plain ScheduleChange
	text, err := json.Marshal(plain(c))
	if err != nil || len(c.Drop) == 0 {
		return text, err
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	for _, name := range c.Drop {
		object[name] = json.RawMessage("null")
	}
	return json.Marshal(object)
}

// SchedulesRequest is the body of a request for a page of schedules.
type SchedulesRequest struct {
	After string `json:"after,omitempty"` // the page begins behind this name
	Limit int    `json:"limit,omitempty" pq:"page=100"`
}

// SchedulesPage is the answer to a SchedulesRequest.
type SchedulesPage struct {
	Schedules []Schedule `json:"schedules"`
	Next      string     `json:"next,omitempty"` // After of the next page; "": this is the last page
}

// ScheduleTimes is the answer to a preview.
type ScheduleTimes struct {
	Times []time.Time `json:"times"`
}

// ScheduleResume is what the body of a resume may say.
type ScheduleResume struct {
	From string `json:"from,omitempty" pq:"enum=now"` // "now": the schedule begins anew, also with times that have fired
}

// ScheduleNamed is the answer to a request after which the schedule is gone.
type ScheduleNamed struct {
	Queue string `json:"queue"`
	Name  string `json:"name"`
}

const (
	// MaxSchedulesPage bounds a page of schedules.
	MaxSchedulesPage = 100

	// ScheduleTimesShown is how many of its next times a schedule shows.
	ScheduleTimesShown = 10

	// ResumeFromNow is the value of ScheduleResume.From.
	ResumeFromNow = "now"
)
