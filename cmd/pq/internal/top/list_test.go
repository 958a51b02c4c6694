package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/figures"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/screen"
)

func smallTop(t *testing.T) *fakeTop {
	t.Helper()
	f := newFakeTop(t, 100, 12)
	f.add("jobs", 2, 1).Leased = 3
	f.add("jobs-dead", 4, 0)
	f.add("mail", 1234, 5).Paused = true
	f.add("video", 0, 20).Delayed = 7
	f.start()
	return f
}

func TestTopList(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	want := strings.TrimSpace(`
pq top  nats://127.0.0.1:4222  prefix pq                                                    12:00:00
4 queues by rate  1,240 ready  3 leased  7 delayed  26 pushes/s  0.0 pops/s

QUEUE      READY  LEASED  DELAYED  DEAD  OLDEST  WAITING  PUSH/S  POP/S  SETTLE/S
video          0       0        7     0       -        0      20    0.0       0.0
mail       1,234       0        0     0  20m34s        0     5.0    0.0       0.0  paused
jobs           2       3        0     4      2s        0     1.0    0.0       0.0
jobs-dead      4       0        0     -      4s        0     0.0    0.0       0.0



enter open  / filter  s sort  p pause  r requeue dead  ? help  q quit`)
	if got := f.terminal.Text(); got != want {
		t.Fatalf("\n%s\nexpected\n%s", got, want)
	}
	if red := f.terminal.Cells()[6][38]; red.Rune != '4' || !strings.Contains(red.Style, "31") {
		t.Errorf("dead letters are %+v", red)
	}
}

func TestTopSorts(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.press("s")
	f.expectRows("jobs jobs-dead mail video")
	f.press("o")
	f.expectRows("video mail jobs-dead jobs")
	f.shows("QUEUE▼")
	f.press("s")
	f.expectRows("mail jobs-dead jobs video")
	f.shows("READY▼", "by ready")
	f.press("o")
	f.expectRows("video jobs jobs-dead mail")
	f.press("S", "S", "S")
	f.shows("SETTLE/S▼")
	for range sortable {
		f.press("s")
	}
	f.shows("SETTLE/S▼")
	for order := range figures.Orders {
		if !strings.Contains(" "+strings.Join(sortable, " ")+" ", " "+order+" ") || !strings.Contains(orderNames, order) {
			t.Errorf("no key or no help for the order %s", order)
		}
	}
	f.press("s", "s", "s", "s", "s", "s")
	f.expectRows("jobs mail video jobs-dead") // by dead letters
}

// The cursor stays at the queue that was chosen, however the list changes.
func TestTopCursor(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	if got := f.marked(); !strings.HasPrefix(got, "video") {
		t.Errorf("%q", got)
	}
	f.queues["mail"].Rates.Push = 30
	f.later(time.Second)
	if got := f.marked(); !strings.HasPrefix(got, "mail") {
		t.Errorf("at the top nobody has chosen: %q", got)
	}
	f.press(screen.Down, screen.Down)
	if got := f.marked(); !strings.HasPrefix(got, "jobs ") {
		t.Errorf("%q", got)
	}
	f.queues["jobs"].Rates.Push = 50
	f.later(time.Second)
	f.expectRows("jobs mail video jobs-dead")
	if got := f.marked(); !strings.HasPrefix(got, "jobs ") {
		t.Errorf("%q", got)
	}
	delete(f.queues, "jobs")
	f.later(time.Second)
	if got := f.marked(); !strings.HasPrefix(got, "mail") {
		t.Errorf("after the queue was deleted: %q", got)
	}
	f.press(screen.End, screen.Down, "j")
	if got := f.marked(); !strings.HasPrefix(got, "jobs-dead") {
		t.Errorf("%q", got)
	}
	f.press(screen.Home, "k", screen.Up)
	if got := f.marked(); !strings.HasPrefix(got, "mail") {
		t.Errorf("%q", got)
	}
}

func TestTopFilter(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.press("/")
	f.typed("jo\x1b[2Jb")
	f.press("b", screen.Backspace)
	if f.model.list.begin != "jo2Jb" {
		t.Fatalf("%q", f.model.list.begin)
	}
	f.press(screen.CtrlU)
	f.typed("jobs-")
	f.expectRows("jobs-dead")
	f.shows("1 queue beginning with jobs- by rate")
	f.press(screen.Enter)
	f.press("q")
	if !f.model.left {
		t.Error("q is a key again behind the filter")
	}
	f.model.left = false
	f.press(screen.Escape)
	f.expectRows("video mail jobs jobs-dead")
	f.press("/", "q")
	if f.shows("no queues"); f.model.left {
		t.Error("q is a letter of the filter")
	}
	f.press(screen.Escape)
	f.expectRows("video mail jobs jobs-dead")
	f.press("/")
	f.typed(strings.Repeat("x", 100))
	if len(f.model.list.begin) != maxFilter {
		t.Errorf("a filter of %d characters", len(f.model.list.begin))
	}
}

// A list that is longer than the screen scrolls.
func TestTopScrolls(t *testing.T) {
	t.Parallel()
	f := newFakeTop(t, 80, 10)
	f.many(30)
	f.start()
	f.press("s") // by name
	f.expectRows("q000000 q000001 q000002 q000003 q000004")
	f.press(screen.PageDown)
	f.expectRows("q000001 q000002 q000003 q000004 q000005")
	f.press(screen.PageDown, screen.PageDown)
	f.expectRows("q000011 q000012 q000013 q000014 q000015")
	f.hides("…")
	f.press(screen.Up)
	f.expectRows("q000011 q000012 q000013 q000014 q000015")
	f.press("G")
	f.expectRows("q000025 q000026 q000027 q000028 q000029")
	f.resize(80, 20)
	if got := f.rows(); len(got) != 15 || got[14] != "q000029" {
		t.Errorf("%v", got)
	}
	f.resize(80, 8)
	if got := f.marked(); !strings.HasPrefix(got, "q000029") {
		t.Errorf("%q", got)
	}
}

// With 100,000 queues it asks for what it shows, turns pages, and remembers one.
func TestTopIsBounded(t *testing.T) {
	t.Parallel()
	f := newFakeTop(t, 80, 25)
	f.many(100_000)
	f.start()
	f.shows("more than 1,000 queues, by name: page 1, from q000000")
	if f.asked != 20 {
		t.Errorf("asked about %d queues, and shows 20", f.asked)
	}
	f.press("s")
	f.shows("more than 1,000 queues: by name; / shows fewer")
	per := func(what string, most int, do func()) {
		t.Helper()
		f.asked, f.looks = 0, nil
		if do(); f.asked > most {
			t.Errorf("%s: asked about %d queues, expected up to %d", what, f.asked, most)
		}
		if n := len(f.model.list.figures); n > mostNames {
			t.Errorf("%s: it remembers %d queues", what, n)
		}
	}
	per("a second", 20, func() { f.later(time.Second) })
	per("ten lines", 10, func() {
		for range 29 {
			f.press(screen.Down)
		}
	})
	f.expectRows(names(10, 30))
	per("the end of the page", 20, func() { f.press(screen.End) })
	f.expectRows(names(980, 1000))
	per("the next page", 20, func() { f.press(screen.Down) })
	f.expectRows(names(1000, 1020))
	f.shows("page 2, from q001000")
	for range 9 {
		f.press(screen.End, screen.Down)
	}
	f.shows("page 11, from q010000")
	per("back", 40, func() { f.press(screen.Up) })
	f.expectRows(names(9980, 10000))
	per("a filter: 1,000 queues begin with q099", 4*20+1000+100, func() { f.press("/"); f.typed("q0999") })
	f.shows("100 queues beginning with q0999 by rate")
	per("a second of all that are sorted", 100, func() { f.later(time.Second) })
	if got := f.rows()[0]; got != "q099900" {
		t.Errorf("%s", got)
	}
}

func names(from, to int) string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, fmt.Sprintf("q%06d", i))
	}
	return strings.Join(all, " ")
}

// Keys that come faster than answers ask for nothing more.
func TestTopAsksOnceAtATime(t *testing.T) {
	t.Parallel()
	f := newFakeTop(t, 80, 10)
	f.many(2000)
	f.start()
	f.silent, f.looks = true, nil
	for range 200 {
		f.press(screen.PageDown)
	}
	f.later(time.Minute)
	if len(f.looks) != 1 {
		t.Errorf("%d looks without an answer", len(f.looks))
	}
}

// After a slow answer it waits as long as the answer took.
func TestTopSparesABridge(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{0: time.Second, 300 * time.Millisecond: 700 * time.Millisecond, 4 * time.Second: 4 * time.Second} {
		if got := session.Pause(took, time.Second); got != want {
			t.Errorf("after %s: %s, expected %s", took, got, want)
		}
	}
}

// Columns go from a narrow terminal before the names and the items do.
func TestTopFitsIntoAnyTerminal(t *testing.T) {
	t.Parallel()
	f := smallTop(t)
	f.queues["a-queue-with-a-name-of-fifty-characters-0123456789"] = f.add("x", 9_876_543_210, 0)
	delete(f.queues, "x")
	f.queues["a-queue-with-a-name-of-fifty-characters-0123456789"].Queue = "a-queue-with-a-name-of-fifty-characters-0123456789"
	f.later(time.Second)
	for columns := 1; columns <= 140; columns += 1 + columns/40*4 {
		for _, lines := range []int{1, 2, 6, 24} {
			f.resize(columns, lines)
			for _, keys := range []string{"", "?", "?", "/", "\x15", "p", "n"} {
				f.typed(keys)
			}
			f.press(screen.Escape, screen.Enter, screen.Tab, screen.Tab, screen.Tab, "r", "n", screen.Escape)
			if f.model.detail != nil || f.model.typing {
				t.Fatalf("%d × %d: not back at the list", columns, lines)
			}
		}
	}
	f.resize(50, 12)
	f.shows("jobs-dead", "1,234", "DEAD", "9,876,543,210")
	f.hides("SETTLE/S", "WAITING")
	f.resize(150, 12)
	f.shows("SETTLE/S", "0123456789")
}
