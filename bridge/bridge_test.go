package bridge_test

import (
	"encoding/json"
	"testing"
)

func decode(t testing.TB, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
}
