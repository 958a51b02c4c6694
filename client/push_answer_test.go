package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// Answers to bundles are read as encoding/json reads them, in the words of bridges and in all others.
func TestReadResults(t *testing.T) {
	t.Parallel()
	const head = `{"type":"io.pq.v1.push_response","stream":"jobs","seq":2`
	for text, plain := range map[string]bool{
		head + `,"items":[{"seq":1,"id":"a","priority":0}]}`:                                                                 true,
		head + `,"duplicate":true,"items":[{"seq":1,"duplicate":true,"id":"a","priority":-9223372036854775808}]}`:            true,
		head + `,"items":[{"seq":1,"id":"a","priority":7,"evicted":true},{"seq":9223372036854775807,"id":"","priority":0}]}`: true,
		head + `,"items":[]}`: false,
		head + `}`:            false,
		head + `,"items":[{"seq":1,"id":"a\"b","priority":0}]}`:                                                         false,
		head + `,"items":[{"id":"a","seq":1,"priority":0}]}`:                                                            false,
		head + `,"items":[{"seq":1,"id":"a","priority":0},{"error":{"code":400,"err_code":30400,"description":"no"}}]}`: false,
		head + `,"items":[{"seq":1,"id":"a","priority":0}],"later":1}`:                                                  false,
		head + `,"items":[{"seq":1,"id":"a","priority":0}`:                                                              false,
		head + `,"items":[{"seq":1,"id":"a","priority":0},`:                                                             false,
		head + `,"items":[{"seq":1,"id":"a","priority":0}]}}`:                                                           false,
		head + `,"items":[{"seq":1.5,"id":"a","priority":0}]}`:                                                          false,
		head + `,"items":[{"seq":--1,"id":"a","priority":0}]}`:                                                          false,
		head + `,"items":[{"seq":1,"id":"a","priority":99999999999999999999}]}`:                                         false,
	} {
		var want protocol.PushResponse
		wantErr := json.Unmarshal([]byte(text), &want)
		got, err := client.ReadResults([]byte(text))
		if (err == nil) != (wantErr == nil) || err == nil && len(got)+len(want.Items) > 0 && !reflect.DeepEqual(got, want.Items) {
			t.Errorf("%s: %+v, %v; expected %+v, %v", text, got, err, want.Items, wantErr)
		}
		if _, is := client.ReadPlainResults([]byte(text)); is != plain {
			t.Errorf("%s: read by itself: %v, expected %v", text, is, plain)
		}
	}
}
