package show

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %s, expected %s", n, got, want)
		}
	}
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 8 << 20: "8.0 MiB", math.MaxInt64: "8388608.0 TiB",
	} {
		if got := Size(n); got != want {
			t.Errorf("%d bytes are %s, expected %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1500 * time.Nanosecond: "2µs", 1234567 * time.Nanosecond: "1ms", 12*time.Second + 400*time.Millisecond: "12s",
		90 * time.Second: "1m30s", 125 * time.Minute: "2h5m", 76 * time.Hour: "3d4h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%d ns are %s, expected %s", d, got, want)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	got := strings.Join(Columns([][]string{
		{"NAME", "N", "AGE", ""},
		{"größer", "1,000", "-", ""},
		{"b", "-5", "2m", "x"},
	}), "\n")
	want := strings.Join([]string{
		"NAME        N  AGE",
		"größer  1,000    -",
		"b          -5   2m  x",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		"a\tb\n": `a\tb\n`, "\xff": `\xff`, `{"a":"b\\c"}`: `{"a":"b\\c"}`, "\x1b[2J": `\x1b[2J`, strings.Repeat("x", 51): strings.Repeat("x", 50) + "…",
	} {
		if got := Excerpt([]byte(payload)); got != want {
			t.Errorf("%q is shown as %s, expected %s", payload, got, want)
		}
	}
}

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
