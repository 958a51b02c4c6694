package screen

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// typed are the keys of these bytes, read in pieces of some size.
func typed(text string, size int) (keys []Key) {
	var k keyboard
	for chunk := range slices.Chunk([]byte(text), size) {
		k.read(chunk, func(key Key) { keys = append(keys, key) })
	}
	k.settle(func(key Key) { keys = append(keys, key) })
	return keys
}

func TestKeyboard(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"q":                                     "q",
		"jk\r\n\t\x7f\x08":                      "j k enter enter tab backspace backspace",
		"\x03\x0c\x15\x1a":                      "ctrl-c ctrl-u",
		"\x1b[A\x1b[B\x1bOA\x1bOB":              "up down up down",
		"\x1b[5~\x1b[6~\x1b[H\x1bOF":            "page up page down home end",
		"\x1b[1;5C\x1b[99~x":                    "x", // a key that nobody knows
		"\x1b[Z":                                "shift-tab",
		"\x1b":                                  "escape",
		"\x1b\x1b[A":                            "escape up",
		"\x1bq":                                 "escape q",
		"日é":                                    "日 é",
		"\xffa\xe6\x97":                         "a",
		"\u202ea\u0301":                         "a",
		"a\x1b[200~pyq\x1b[A\x1b[20\x1b[201~b":  "a b",
		"\x1b[" + strings.Repeat("1", 40) + "A": "1 1 1 1 1 1 1 1 1 1 A",
	} {
		for size := 1; size <= len(text); size++ {
			var names []string
			for _, key := range typed(text, size) {
				names = append(names, string(key))
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%q in pieces of %d: %s, expected %s", text, size, got, want)
			}
		}
	}
}

// ESC is a key when nothing follows for a moment. A paste that stands still is over.
func TestKeysInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		keys, ended := make(chan Key), make(chan error, 1)
		go func() { ended <- Keys(t.Context(), in, func(k Key) { keys <- k }) }()
		send := func(text string) {
			t.Helper()
			if _, err := io.WriteString(out, text); err != nil {
				t.Error(err)
			}
		}
		expect := func(want Key) {
			t.Helper()
			if got := <-keys; got != want {
				t.Errorf("%s, expected %s", got, want)
			}
		}
		began := time.Now()
		go send("\x1b")
		expect(Escape)
		if waited := time.Since(began); waited != escapeWait {
			t.Errorf("waited %s", waited)
		}
		go func() { send("\x1b"); send("[A") }()
		expect(Up)
		began = time.Now()
		go func() {
			send(pasteBegins + "yyy")
			<-time.After(pasteWait - time.Second)
			send("y")
			<-time.After(pasteWait)
			send("q")
		}()
		expect("q")
		if waited := time.Since(began); waited != 2*pasteWait-time.Second {
			t.Errorf("waited %s", waited)
		}
		out.Close()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
	})
}

func TestKeysEndWithContext(t *testing.T) {
	t.Parallel()
	in, _ := io.Pipe()
	defer in.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Keys(ctx, in, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func FuzzKeyboard(f *testing.F) {
	f.Add("q\x1b[A\x1b[200~x\x1b[201~", 3)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if size < 1 || size > 300 || len(text) > 4096 {
			return
		}
		whole := typed(text, max(1, len(text)))
		if pieces := typed(text, size); !slices.Equal(pieces, whole) {
			t.Errorf("%q in pieces of %d: %q, at once %q", text, size, pieces, whole)
		}
		var k keyboard
		k.read([]byte(text), func(Key) {})
		if len(k.pending) >= maxSequence {
			t.Errorf("%d bytes wait", len(k.pending))
		}
	})
}
