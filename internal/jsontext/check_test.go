package jsontext_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/internal/testkit/expense"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{}`: "", ` [ ] `: "", `"x"`: "", `7`: "", `{"a" : [ 1 , {"b":null} ], "c":{"a":-1.5e3},"d":true}`: "",
		`{"a":"\ud83d\ude00 \\ud800 \" \u00e9 é","A":"b"}`: "",
		`{"a":{"b":1},"b":[{"a":2},{"a":3}]}`:              "",
		"{\"a\":\"\ufffd\"}":                               "",                                                    // as it was written
		`no JSON`:                                          "", `{"a":"` + "\xff": "", `{"a":1,"a":2`: "", ``: "", // the reader's business

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
		`{"\b\f\n\r\t\"\\\/\ud83d\ude00":1,"\u0008\u000C\u000a\u000d\u0009\u0022\u005c\u002f😀":2}`: `field "\b\f\n\r\t\"\\/\U0001f600" occurs twice`,
		`{"a":{"b` + strings.Repeat("é", 99) + `":{"c":"` + "\xff" + `"}}}`:                        `field "a.b` + strings.Repeat(`\u00e9`, 77) + `" is not UTF-8`,
		fields(40) + `,"a7":1}`:      `field "a7" occurs twice`, // among few, and among many
		fields(40) + `,"\u00617":1}`: `field "a7" occurs twice`,
		fields(40) + `,"a39":1}`:     `field "a39" occurs twice`,
	} {
		switch err := jsontext.Check([]byte(text)); {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, expected %q", text, err, want)
		}
	}
}

// fields are the beginning of an object with n fields.
func fields(n int) string {
	text := []byte(`{"a0":0`)
	for i := 1; i < n; i++ {
		text = fmt.Appendf(text, `,"a%d":0`, i)
	}
	return string(text)
}

// Objects and arrays nest up to a bound, whatever strings are among them, and whatever comes behind.
func TestDepth(t *testing.T) {
	t.Parallel()
	const deepest = "nested deeper than 16"
	for text, deep := range map[string]bool{
		nested("[", "]", 16): false, nested("[", "]", 17): true,
		nested(`{"a":`, "}", 16): false, nested(`{"a":`, "}", 17): true,
		nested(`[{"[{\"[{":`, "}]", 8): false, nested(`[{"[{\"[{":`, "}]", 9): true,
		"[" + strings.Repeat("[],", 99) + "[]]": false,
		`"` + strings.Repeat("[", 99) + `"`:     false,
		`["\\",` + nested("[", "]", 15) + `]`:   false,
		`["\\",` + nested("[", "]", 16) + `]`:   true,
		strings.Repeat("[", 17) + " no JSON":    true,
		strings.Repeat("[", 16) + " no JSON":    false, // the reader's business
		strings.Repeat(`{"a":`, 100_000):        true,
	} {
		if err := jsontext.Check([]byte(text)); (err != nil) != deep || deep && !strings.Contains(err.Error(), deepest) {
			t.Errorf("%.100s: %v, expected an error: %t", text, err, deep)
		}
	}
}

func nested(open, end string, n int) string {
	return strings.Repeat(open, n) + "1" + strings.Repeat(end, n)
}

// A text costs as many bytes as it has a few times over, whatever it has. Before, depth times the length
// of the names: this one took a gigabyte.
func TestCheckTakesLittle(t *testing.T) {
	name := strings.Repeat("n", 40)
	for what, text := range map[string]string{
		"deep":         nested(`{"`+name+`":`, "}", 9990),
		"flat":         fields(100_000) + "}",
		"objects":      "[{}" + strings.Repeat(",{}", 100_000) + "]",
		"small":        `[{"a":1,"b":2}` + strings.Repeat(`,{"a":1,"b":2}`, 100_000) + "]",
		"escapes":      strings.ReplaceAll(fields(50_000), "a", `\t`) + "}",
		"long names":   `{"` + strings.Repeat("n", 500_000) + `":{"` + strings.Repeat("n", 500_000) + `":"` + "\xff" + `"}}`,
		"long escapes": `{"` + strings.Repeat(`\u006e`, 100_000) + `":"\ud800"}`,
		"twice":        fields(100_000) + `,"a7":0}`,
	} {
		if _, beyond := expense.Least(func() {}, func() int {
			_ = jsontext.Check([]byte(text))
			return len(text)
		}); beyond != "" {
			t.Errorf("%s: %s", what, beyond)
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

// What is read a piece at a time is what encoding/json reads at once.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b" : [ ] , "\u0063\n" : { } } `, `{"a":{"b":["}",{"c":"]"}]},"d":-1.5e3,"e":true,"f":null}`,
		`{"\ud83d\ude00":"\ud800","\ud800x":"\udc00\ud800"}`, `{"a":"\\\"","b\\":"{"}`, `{"":[[],[[]]],"x":"é"}`,
	} {
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]json.RawMessage)
		if !jsontext.Fields(text, func(name, value string) bool {
			got[name] = json.RawMessage(value)
			before, cut, after, found := jsontext.Cut(text, name)
			if !found || cut != value || before+cut+after != text {
				t.Errorf("%s: cut around %q: %q, %q, %q, %t", text, name, before, cut, after, found)
			}
			return true
		}) {
			t.Errorf("%s: no object", text)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: %q, expected %q", text, got, want)
		}
		if _, _, _, found := jsontext.Cut(text, "missing"); found {
			t.Errorf("%s: a field that is missing was found", text)
		}
		for _, value := range want {
			var all []json.RawMessage
			is := json.Unmarshal(value, &all) == nil && all != nil
			var values []json.RawMessage
			if jsontext.Values(string(value), func(value string) bool {
				values = append(values, json.RawMessage(value))
				return true
			}) != is || len(values) != len(all) || is && len(all) > 0 && !reflect.DeepEqual(values, all) {
				t.Errorf("%s: %q, expected %q", value, values, all)
			}
			var want string
			is = value[0] == '"' && json.Unmarshal(value, &want) == nil
			if got, text := jsontext.Text(string(value)); got != want || text != is {
				t.Errorf("%s: %q, expected %q", value, got, want)
			}
		}
	}
	n := 0
	if jsontext.Fields(`{"a":1,"b":2,"c":3}`, func(name, _ string) bool { n++; return name != "b" }); n != 2 {
		t.Errorf("%d fields were read, expected those up to b", n)
	}
	for _, text := range []string{"[]", "5", `"a"`, "null"} {
		if jsontext.Fields(text, nil) {
			t.Errorf("%s is an object", text)
		}
	}
}
