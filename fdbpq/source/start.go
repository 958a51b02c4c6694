package source

import (
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
)

// Start says with which message a source begins: first, new, a sequence or a time.
type Start struct {
	Word string     // "first" or "new", or
	Seq  uint64     // one of these
	Time *time.Time //
}

// The words of a Start.
const (
	StartFirst = "first"
	StartNew   = "new"
)

func (s Start) equal(other Start) bool {
	same := s.Word == other.Word && s.Seq == other.Seq && (s.Time == nil) == (other.Time == nil)
	return same && (s.Time == nil || s.Time.Equal(*other.Time))
}

// MarshalJSON implements json.Marshaler.
func (s Start) MarshalJSON() ([]byte, error) {
	switch {
	case s.Time != nil:
		return json.Marshal(map[string]time.Time{"time": *s.Time})
	case s.Seq > 0:
		return json.Marshal(map[string]uint64{"seq": s.Seq})
	}
	return json.Marshal(s.Word)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Start) UnmarshalJSON(b []byte) error {
	expected := jsonfields.Errorf(`start is %s: expected "first", "new", {"seq":<n>} with n from 1, or {"time":"<RFC 3339>"}`, b)
	*s = Start{}
	if json.Unmarshal(b, &s.Word) == nil {
		if s.Word != StartFirst && s.Word != StartNew {
			return expected
		}
		return nil
	}
	if jsonfields.Check(b, []string{"seq", "time"}, false) != nil {
		return expected
	}
	var object struct {
		Seq  uint64
		Time *time.Time
	}
	if json.Unmarshal(b, &object) != nil || (object.Seq == 0) == (object.Time == nil) {
		return expected
	}
	s.Seq, s.Time = object.Seq, object.Time
	return nil
}
