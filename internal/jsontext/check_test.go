package jsontext_test

import (
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
