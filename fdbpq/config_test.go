package fdbpq_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// Invalid configurations are refused, with a text that says why.
func TestConfigChangeRefuses(t *testing.T) {
	t.Parallel()
	for object, says := range map[string]string{
		``:                                         "JSON object",
		`null`:                                     "JSON object",
		`[]`:                                       "JSON object",
		`"lease"`:                                  "JSON object",
		`{"lease":"5s"`:                            "the JSON object does not end",
		`{"lease":`:                                "the JSON object does not end",
		`{"lease":"5`:                              "the JSON object does not end",
		`{lease:"5s"}`:                             "it is no JSON: invalid character 'l'",
		`{"lease":"5s"} {}`:                        "there is more behind the JSON object",
		`{"LEASE":"5s"}`:                           `unknown field "LEASE"`,
		`{"leases":"5s"}`:                          "some of priority, lease, ttl",
		`{"lease":null}`:                           "lease is null",
		`{"lease":"5s","lease":"6s"}`:              `"lease" occurs twice`,
		`{"lease":5}`:                              "lease is 5: expected a string",
		`{"lease":"5"}`:                            `lease: duration "5": expected a form like 30s`,
		`{"lease":"5s","ttl":"x"}`:                 `ttl: duration "x"`,
		`{"rate":"x","lease":"5s"}`:                "rate: ",
		`{"key_order":"yes"}`:                      `key_order is "yes": expected true or false`,
		`{"ties":["oldest"]}`:                      "ties is [\"oldest\"]: expected a string",
		`{"lease":"-1s"}`:                          "allowed are 0s to",
		`{"lease":"13h"}`:                          "allowed are 0s to",
		`{"priority":1.5}`:                         "priority is 1.5: expected an integer",
		`{"priority":9223372036854775808}`:         "priority is 9223372036854775808: expected an integer",
		`{"max_length":-1}`:                        "negative",
		`{"ties":"random"}`:                        `"newest" and "oldest"`,
		`{"overflow":"block"}`:                     `"refuse" and "evict"`,
		`{"dedup_window":"25h"}`:                   "allowed are 0s to",
		`{"hand_over":"a,,b"}`:                     "separated by commas",
		`{"dead_letters_from":",a"}`:               "separated by commas",
		`{"dedup_limit":10000001}`:                 "allowed are 0 to 10000000",
		`{"dedup_limit":9223372036854775807}`:      "allowed are 0 to 10000000",
		`{"ack_wait":"30s"}`:                       "here it is lease",
		`{"max_deliver":5}`:                        "here it is max_deliveries",
		`{"attempts":17}`:                          "allowed are 0, for none, to 16",
		`{"attempts":-1}`:                          "allowed are 0, for none, to 16",
		`{"backoff":null}`:                         "backoff is null",
		`{"backoff":"1s"}`:                         `backoff: expected "", an object such as {"delay":"1s"}, or a list`,
		`{"backoff":5}`:                            "backoff: expected",
		`{"backoff":[]}`:                           "backoff: there are 0 delays: expected 1 to 32",
		`{"backoff":["1s",5]}`:                     "expected a list of durations",
		`{"backoff":["1s","0s"]}`:                  "a delay is 0s: allowed are 1ms to 87600h0m0s",
		`{"backoff":{}}`:                           "delay is missing: expected it",
		`{"backoff":{"delay":5}}`:                  "delay is 5: expected a string",
		`{"backoff":{"delay":"1s","x":1}}`:         `unknown field "x": expected some of delay, factor, max, jitter`,
		`{"backoff":{"delay":"87601h"}}`:           "allowed are 1ms to 87600h0m0s",
		`{"backoff":{"delay":"1s","max":"999ms"}}`: "max is 999ms: expected no less than delay, 1s",
		`{"backoff":{"delay":"1s","factor":0.9}}`:  "factor is 0.9: allowed are 1 to 10",
		`{"backoff":{"delay":"1s","factor":11}}`:   "factor is 11: allowed are 1 to 10",
		`{"backoff":{"delay":"1s","factor":"2"}}`:  `factor is "2": expected a number`,
		`{"backoff":{"delay":"1s","jitter":1.1}}`:  "jitter is 1.1: allowed are 0 to 1",
		`{"backoff":{"delay":"1s","delay":"2s"}}`:  `"backoff.delay" occurs twice`,
		`{"backoff":["1s"` + strings.Repeat(`,"1s"`, 32) + `]}`: "there are 33 delays",
		`{"hand_over":"` + strings.Repeat("a", 4097) + `"}`:     "allowed are 4096",
	} {
		_, err := fdbpq.Config{Ties: fdbpq.TiesNewest, Overflow: fdbpq.OverflowRefuse}.Merge([]byte(object))
		var refused *fdbpq.ConfigError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want a ConfigError with %q", object, err, says)
		}
	}
}

// A change leaves other fields as they are.
func TestConfigChangeKeepsTheRest(t *testing.T) {
	t.Parallel()
	c := fdbpq.Config{Priority: 7, MaxLength: 9, Ties: fdbpq.TiesNewest, Overflow: fdbpq.OverflowEvict}
	got, err := c.Merge([]byte(` {"ties": "oldest", "lease": "1m30s"} `))
	if err != nil {
		t.Fatal(err)
	}
	want := c
	want.Ties = fdbpq.TiesOldest
	if err := want.Lease.UnmarshalText([]byte("90s")); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The names in a configuration fit a key, and the rows that every transaction reads.
func TestConfigBoundsNames(t *testing.T) {
	t.Parallel()
	for field, most := range map[string]int{"dead_letter": 256, "dead_letters_from": 4096} {
		for _, n := range []int{most, most + 1} {
			_, err := fdbpq.Config{Ties: fdbpq.TiesNewest, Overflow: fdbpq.OverflowRefuse}.Merge(fmt.Appendf(nil, `{%q:%q}`, field, strings.Repeat("x", n)))
			var refused *fdbpq.ConfigError
			if errors.As(err, &refused) != (n > most) {
				t.Errorf("%s with %d bytes: %v, allowed are %d", field, n, err, most)
			}
		}
	}
}
