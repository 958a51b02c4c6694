package top

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/internal/screen"
)

// hostile are texts that others write and that would change a terminal, or what it shows.
var hostile = []string{
	"\x1b[2J\x1b[H\x1b[31mowned", "\x1b]0;title\x07", "\x1b]52;c;cm0gLXJm\x07", "\x1bP$q\"p\x1b\\", "\x1b[6n",
	"\x9b31m\x9d0;x\x9c", "\u009b31m", "a\rb\bc\vd\fe\x00\x7f", "line\nline",
	"\u202egnp.exe\u202c", "\u2066\u2069\u200f", "שלום עולם", "العربية ١٢٣", "\u200b\u200d\ufeff\u00ad", "e\u0301\u0302\u0303\u0489",
	"日本語日本語", "ｆｕｌｌ", "👩\u200d👩\u200d👧", "\xff\xfe\xc3", "\U000e0041\U000e0042", "\u2028\u2029", strings.Repeat("W", 300), "",
}

// No text of others reaches the terminal as it is: the terminal of these tests refuses all
// but characters that stand in their place. And no row pushes another one aside.
func TestTopHostileTexts(t *testing.T) {
	t.Parallel()
	for n, text := range hostile {
		f := newFakeTop(t, 100, 16)
		name := text + "queue"
		f.add(name, 5, 3).Config.DeadLetter = text + "grave"
		f.add("zz", 1, 2)
		f.add(text+"grave", 1, 0)
		f.model.server, f.model.prefix = "nats://"+text, text
		for _, state := range []string{" ready", " leased", " delayed"} {
			i := listedItem(text+"id", 1, f.now)
			i.Key, i.Dead = text, &client.Death{Reason: text, Origin: text, OriginID: text}
			for _, in := range []string{name, text + "grave"} {
				f.items[in+state] = []client.Listed{i, listedItem("id-2", 2, f.now)}
			}
		}
		f.bodies[text+"id"] = &client.Item{
			Queue: name, ID: text + "id", Key: text, State: client.Ready, WaitsFor: text, Payload: []byte(text + "\n" + text),
			Header: nats.Header{"Evil" + text: {text, text}}, Dead: &client.Death{Reason: text, Origin: text, OriginID: text},
		}
		f.start()
		head := f.line(listFrame - 2)
		if at := slices.Index(cellsOf(f, listFrame-2), 'Y'); at < 0 || !strings.Contains(head, "READY") {
			t.Fatalf("text %d: %s", n, head)
		} else {
			for row := listFrame - 1; row < listFrame+2; row++ {
				if r := cellsOf(f, row)[at]; r < '0' || r > '9' {
					t.Errorf("text %d: the number of ready items is not below its head:\n%s", n, f.terminal.Text())
				}
			}
		}
		f.choose(name)
		f.press("p", "n", "r", "n", "p", "y")
		f.happens(done{text: text})
		f.happens(done{text: text, err: errors.New(text)})
		f.happens(refused{errors.New(text)})
		f.press(screen.Enter)
		for range tabs {
			f.press(screen.Tab, "r", "n", screen.Enter, screen.PageDown, screen.Escape)
		}
		f.err = errors.New(text)
		f.later(2e9)
		f.press(screen.Escape)
	}
}

// cellsOf are the characters of a line, one a column.
func cellsOf(f *fakeTop, line int) (runes []rune) {
	for _, cell := range f.terminal.Cells()[line] {
		runes = append(runes, cell.Rune)
	}
	return runes
}

// What tables and facts show for people is visible, too; payloads and JSON stay as they are.
func TestHostileTextsInTables(t *testing.T) {
	t.Parallel()
	for n, text := range hostile {
		lines := show.Columns([][]string{{"ID", "REASON", "N"}, {"a", text, "1"}, {"b", "short", "22"}})
		if len(lines) != 3 {
			t.Fatalf("%d lines", len(lines))
		}
		end := screen.Width(lines[0])
		for _, line := range lines {
			if screen.Visible(line) != line || screen.Width(line) > end+1 {
				t.Errorf("text %d: %q", n, line)
			}
		}
		i := &show.Item{}
		i.ID, i.Key, i.Dead = "a", text, &client.Death{Reason: text, Origin: text, OriginID: text}
		i.SetHeaders(nats.Header{"H": {text}})
		for line := range strings.SplitSeq(strings.TrimSuffix(i.Describe(), "\n"), "\n") {
			if screen.Visible(line) != line || !strings.Contains(line, ":") {
				t.Errorf("text %d: %q", n, line)
			}
		}
		if got := show.Excerpt([]byte(text)); screen.Visible(got) != got {
			t.Errorf("text %d: %q", n, got)
		}
	}
	if got := show.Excerpt([]byte("tab\tand \"quotes\"")); got != `tab\tand "quotes"` {
		t.Error(got)
	}
}
