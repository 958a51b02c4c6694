package jsontext_test

import (
	"encoding/json"
	"io"
	"net/netip"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/jsontext"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "", ` [ ] `: "", `"x"`: "", `7`: "", `{"a" : [ 1 , {"b":null} ], "c":{"a":-1.5e3},"d":true}`: "",
		`{"a":"\ud83d\ude00 \\ud800 \" \u00e9 é","A":"b"}`: "",
		"{\"a\":\"\ufffd\"}": "",                                                    // as it was written
		`no JSON`:            "", `{"a":"` + "\xff": "", `{"a":1,"a":2`: "", ``: "", // the reader's business

		`{"a":1,"a":2}`:      `field "a" occurs twice`,
		`{"a":1,"\u0061":2}`: `field "a" occurs twice`,
		`{"a":{"b":[{"c":1},{"c":1 , "d":2, "c":[]}]}}`: `field "a.b.c" occurs twice`,
		`{"a":"x` + "\xff" + `"}`:                       `field "a" is not UTF-8`,
		`{"a":["x","` + "\xed\xa0\x80" + `"]}`:          `field "a" is not UTF-8`,
		`{"a":{"\ud800":1}}`:                            `the name of a field has half`,
		`{"` + "\xff" + `":1}`:                          `the name of a field is not UTF-8`,
		`{"a":"\ud800"}`:                                `field "a" has half of a surrogate pair`,
		`{"a":"\ud800x\udc00"}`:                         `field "a" has half`,
		`{"a":"\udc00\ud800"}`:                          `field "a" has half`,
		`{"a":"\ud800\ud800\udc00"}`:                    `field "a" has half`,
		`{"é":"\\\uDFFF"}`:                              `field "\u00e9" has half`,
		`"\ud800\n"`:                                    `the text has half`,
	} {
		switch err := jsontext.Check([]byte(text)); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// Errors about types name no type of Go.
func TestWrong(t *testing.T) {
	t.Parallel()
	type inner struct {
		Text  string         `json:"text"`
		Count int64          `json:"count"`
		Sure  bool           `json:"sure"`
		List  []string       `json:"list"`
		Any   []any          `json:"any"`
		Part  *float64       `json:"part"`
		Addr  netip.Addr     `json:"addr"`
		Map   map[string]int `json:"map"`
	}
	for text, want := range map[string]string{
		`5`:                    "found a JSON number in place of an object",
		`{"a":{"text":5}}`:     "found a JSON number in place of a string",
		`{"a":{"count":"5"}}`:  "found a JSON string in place of an integer",
		`{"a":{"count":1.5}}`:  "found a JSON number 1.5 in place of an integer",
		`{"a":{"sure":"yes"}}`: "found a JSON string in place of true or false",
		`{"a":{"list":"x"}}`:   "found a JSON string in place of a list of strings",
		`{"a":{"any":"x"}}`:    "found a JSON string in place of a list",
		`{"a":{"part":"x"}}`:   "found a JSON string in place of a number",
		`{"a":{"addr":5}}`:     "found a JSON number in place of a string",
		`{"a":{"map":[]}}`:     "found a JSON array in place of an object",
		`{"a":`:                "unexpected end of JSON input",
	} {
		err := jsontext.Wrong(json.Unmarshal([]byte(text), new(map[string]inner)))
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v, expected %s", text, err, want)
		}
	}
	if err := jsontext.Wrong(nil); err != nil {
		t.Error(err)
	}
}

// A text that breaks off says so, and no text says EOF.
func TestBroken(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`:         "the JSON object does not end",
		`{"a"`:      "the JSON object does not end",
		`{"a":"b`:   "the JSON object does not end",
		`{"a":"b"`:  "the JSON object does not end",
		`{a:5}`:     "it is no JSON: invalid character 'a'",
		`{"a":1,5}`: "it is no JSON: invalid character '5'",
	} {
		d, err := json.NewDecoder(strings.NewReader(text)), error(nil)
		for err == nil {
			_, err = d.Token()
		}
		if got := jsontext.Broken(err).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, expected %s", text, got, want)
		}
	}
	if got := jsontext.Broken(io.ErrUnexpectedEOF).Error(); got != "the JSON object does not end" { // as Decode has it
		t.Error(got)
	}
}
