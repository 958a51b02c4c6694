package show

import (
	"encoding/json"
	"strings"
	"testing"
)

// What JSON leaves as it is moves no cursor and turns no text, and means the same.
func TestHarmlessJSON(t *testing.T) {
	t.Parallel()
	const text = "del \x7f, csi \u009b, turned \u202e, joined \u200d, tag \U000e0041, grün 漢 שלום é 🐈 <&>"
	var b strings.Builder
	if err := WriteJSON(HarmlessJSON{&b}, text); err != nil {
		t.Fatal(err)
	}
	if want := `"del \u007f, csi \u009b, turned \u202e, joined ` + "\u200d" + `, tag ` + "\U000e0041" + `, grün 漢 שלום é 🐈 <&>"` + "\n"; b.String() != want {
		t.Errorf("it shows %s, expected %s", b.String(), want)
	}
	var read string
	if err := json.Unmarshal([]byte(b.String()), &read); err != nil || read != text {
		t.Errorf("it means %q, %v", read, err)
	}
}
