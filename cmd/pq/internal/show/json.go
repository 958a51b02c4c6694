package show

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// HarmlessJSON is a writer of JSON to a terminal, which it does nothing to. JSON has words for the
// control characters of ASCII alone: the others, and those that turn the direction of a text, are
// written as their numbers, which means the same. Others stay, such as those that join emoji. Each Write is of whole characters.
type HarmlessJSON struct{ To io.Writer }

// Write implements io.Writer.
func (h HarmlessJSON) Write(text []byte) (int, error) {
	var shown []byte
	for _, r := range string(text) {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Bidi_Control) {
			shown = fmt.Appendf(shown, `\u%04x`, r)
		} else {
			shown = utf8.AppendRune(shown, r)
		}
	}
	if _, err := h.To.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}
