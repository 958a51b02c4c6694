package screen

import (
	"bytes"
	"context"
	"io"
	"time"
	"unicode/utf8"
)

// Key is a key that was pressed: the character, or the name of the key.
type Key string

// The keys without a character.
const (
	Up        Key = "up"
	Down      Key = "down"
	Left      Key = "left"
	Right     Key = "right"
	Home      Key = "home"
	End       Key = "end"
	PageUp    Key = "page up"
	PageDown  Key = "page down"
	Enter     Key = "enter"
	Tab       Key = "tab"
	BackTab   Key = "shift-tab"
	Backspace Key = "backspace"
	Escape    Key = "escape"
	CtrlC     Key = "ctrl-c"
	CtrlU     Key = "ctrl-u"
)

// controls are keys that send one byte.
var controls = map[byte]Key{
	'\r': Enter, '\n': Enter, '\t': Tab, 0x7f: Backspace, 0x08: Backspace, 0x03: CtrlC, 0x15: CtrlU,
}

// sequences are keys that send ESC [ or ESC O, and this.
var sequences = map[string]Key{
	"A": Up, "B": Down, "C": Right, "D": Left, "H": Home, "F": End, "Z": BackTab,
	"1~": Home, "7~": Home, "4~": End, "8~": End, "5~": PageUp, "6~": PageDown,
}

// Pasted text lies between these.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// escapeWait is how long the bytes of a key may be apart. ESC alone is a key, and the
// beginning of others.
const escapeWait = 50 * time.Millisecond

// pasteWait is how long a paste may stand still. A terminal that never ends it must not
// take the keyboard away.
const pasteWait = 5 * time.Second

// Keys calls press with each key that is read until ctx ends, and returns the error that ends the reading. Pasted
// text is no key: a paste must not answer a question.
func Keys(ctx context.Context, r io.Reader, press func(Key)) error {
	chunks, failed := make(chan []byte), make(chan error, 1)
	go func() {
		for {
			chunk := make([]byte, 256)
			n, err := r.Read(chunk)
			select {
			case chunks <- chunk[:n]:
			case <-ctx.Done():
				return
			}
			if err != nil {
				failed <- err
				return
			}
		}
	}()
	var k keyboard
	for {
		var late <-chan time.Time
		if wait := k.waits(); wait > 0 {
			late = time.After(wait)
		}
		select {
		case chunk := <-chunks:
			k.read(chunk, press)
		case <-late:
			k.settle(press)
		case err := <-failed:
			k.settle(press)
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// keyboard turns bytes into keys.
type keyboard struct {
	pending []byte // the beginning of a key
	pasting bool
}

// read takes the next bytes.
func (k *keyboard) read(chunk []byte, press func(Key)) {
	k.pending = append(k.pending, chunk...)
	for len(k.pending) > 0 {
		if k.pasting {
			at := bytes.Index(k.pending, []byte(pasteEnds))
			if at < 0 {
				k.pending = k.pending[len(k.pending)-overlap(k.pending, pasteEnds):]
				return
			}
			k.pasting, k.pending = false, k.pending[at+len(pasteEnds):]
			continue
		}
		key, n := next(k.pending)
		if n == 0 {
			return
		}
		k.pasting = string(k.pending[:n]) == pasteBegins
		if k.pending = k.pending[n:]; key != "" {
			press(key)
		}
	}
}

// overlap is how many bytes at the end of b may be the beginning of a mark.
func overlap(b []byte, mark string) int {
	n := min(len(b), len(mark)-1)
	for ; n > 0 && string(b[len(b)-n:]) != mark[:n]; n-- {
	}
	return n
}

// waits is how long to wait for the rest of a key, or 0 if no key is incomplete.
func (k *keyboard) waits() time.Duration {
	switch {
	case k.pasting:
		return pasteWait
	case len(k.pending) > 0:
		return escapeWait
	}
	return 0
}

// settle ends the wait: an ESC without a continuation is a key.
func (k *keyboard) settle(press func(Key)) {
	escape := !k.pasting && len(k.pending) > 0 && k.pending[0] == 0x1b
	k.pasting, k.pending = false, nil
	if escape {
		press(Escape)
	}
}

// maxSequence bounds the bytes of a key.
const maxSequence = 32

// next is the first key of these bytes, and its length: 0 if bytes are missing. An unknown key is "".
func next(b []byte) (Key, int) {
	switch c := b[0]; {
	case c == 0x1b && len(b) == 1:
		return "", 0
	case c == 0x1b && (b[1] == '[' || b[1] == 'O'):
		for i := 2; i < len(b) && i < maxSequence; i++ {
			if b[i] >= '@' && b[i] <= '~' {
				return sequences[string(b[2:i+1])], i + 1
			}
		}
		if len(b) < maxSequence {
			return "", 0
		}
		return "", maxSequence
	case c == 0x1b:
		return Escape, 1
	case c < ' ' || c == 0x7f:
		return controls[c], 1
	}
	if !utf8.FullRune(b) {
		return "", 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError || !shaped(r) {
		return "", n
	}
	return Key(b[:n]), n
}
