package protocol

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal, but leaves <, > and & as they are: people read the JSON, and it never stands in a page
// of HTML.
func Marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
