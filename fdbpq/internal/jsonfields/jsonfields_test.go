package jsonfields_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
)

type object struct {
	Lease string     `json:"lease"`
	Limit int64      `json:"limit,omitempty"`
	Start *time.Time `json:"start"`
	Own   own        `json:"own"`
}

// own is a field that words its errors itself.
type own struct{}

func (*own) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "1":
		return jsonfields.Errorf("own has %s", b)
	case "2":
		return errors.New("expected 3")
	}
	return nil
}

func read(text string, nulls bool) (o object, err error) {
	if err := jsonfields.Check([]byte(text), jsonfields.Names[object](), nulls); err != nil {
		return o, err
	}
	return o, jsonfields.Decode([]byte(text), &o)
}

func TestNames(t *testing.T) {
	t.Parallel()
	if names := jsonfields.Names[object](); !slices.Equal(names, []string{"lease", "limit", "start", "own"}) {
		t.Errorf("names %v", names)
	}
}

func TestObjectsThatAreRead(t *testing.T) {
	t.Parallel()
	o, err := read(`{"lease":"1s","limit":3,"start":"2030-01-02T15:04:05Z","own":0}`, false)
	if err != nil || o.Lease != "1s" || o.Limit != 3 || o.Start == nil {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := read(`{"start":null}`, true); err != nil {
		t.Errorf("null where it is allowed: %v", err)
	}
}

// Each error is an Error, and names what is wrong and what was expected.
func TestObjectsThatAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 10_000)
	for text, says := range map[string]string{
		``:                         "expected a JSON object with some of lease, limit, start, own",
		`[]`:                       "expected a JSON object",
		`{"lease":"1s"`:            "the JSON object does not end",
		`{"lease":"1s"}{}`:         "there is more behind the JSON object",
		`{"Lease":"1s"}`:           `unknown field "Lease": expected some of lease`,
		`{"ack_wait":"1s"}`:        `unknown field "ack_wait": here it is lease`,
		`{"max_deliver":1}`:        `unknown field "max_deliver": expected some of lease`,
		`{"limit":1,"limit":2}`:    "limit",
		`{"limit":null}`:           "limit is null: leave it out to keep it as it is",
		`{"limit":"one"}`:          `limit is "one": expected an integer`,
		`{"lease":1}`:              "lease is 1: expected a string",
		`{"start":"tomorrow"}`:     `start is "tomorrow": expected a time such as 2030-01-02T15:04:05Z`,
		`{"own":1}`:                "own has 1",
		`{"own":2}`:                "own: expected 3",
		`{"` + long + `":1}`:       "unknown field",
		`{"limit":"` + long + `"}`: "limit is",
	} {
		_, err := read(text, false)
		wrong := (*jsonfields.Error)(nil)
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Text, says) {
			t.Errorf("%.60s: got %v, expected an Error with %q", text, err, says)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.60s: an error of %d bytes", text, len(err.Error()))
		}
	}
}
