package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
)

// byPieces reads in pieces of random sizes.
type byPieces struct {
	from   io.Reader
	random *rand.Rand
}

func (r *byPieces) Read(p []byte) (int, error) {
	return r.from.Read(p[:1+r.random.IntN(min(len(p), 70_000))])
}

// All bytes arrive unchanged, in whatever pieces they are sent. A message with too many
// headers arrives without body and headers, with a mark that says so.
func TestMessageFilter(t *testing.T) {
	t.Parallel()
	var sent, want strings.Builder
	both := func(s string) { sent.WriteString(s); want.WriteString(s) }
	block := func(lines, width int) string {
		return "NATS/1.0\r\n" + strings.Repeat("H:"+strings.Repeat("x", width)+"\r\n", lines) + "\r\n"
	}
	headed := func(subject, headers, body string) string {
		return fmt.Sprintf("HMSG %s %d %d\r\n%s%s\r\n", subject, len(headers), len(headers)+len(body), headers, body)
	}
	instead := func(subject string) string { return headed(subject, bridge.TooManyHeaders, "") }
	both("INFO {\"max_payload\":1048576}\r\nPING\r\nPONG\r\n+OK\r\n-ERR 'what'\r\n")
	for _, body := range []string{"", "x", "HMSG a 1 5 5\r\n", strings.Repeat("MSG a 1 1\r\n", 10_000)} {
		both(fmt.Sprintf("MSG pq.jobs.push 1 _INBOX.x %d\r\n%s\r\n", len(body), body))
		both(headed("pq.jobs.push 1", block(3, 5), body))
		both(headed("pq.jobs.push 1 _INBOX.y", block(protocol.MaxHeaderLines, 0), body))
		both(headed("pq.jobs.push 1 _INBOX.y", block(1, protocol.MaxHeaderBytes-len(block(1, 0))), body))
		for _, large := range []string{block(protocol.MaxHeaderLines+1, 0), block(10_000, 0), block(1, protocol.MaxHeaderBytes)} {
			sent.WriteString(headed("pq.jobs.push 1 _INBOX.z", large, body))
			want.WriteString(instead("pq.jobs.push 1 _INBOX.z"))
			both("PING\r\n")
			for _, lost := range []string{"pq.jobs.push.5\rx 1", "pq.jobs.push 1 _INBOX.\r", "pq.\rjobs\r.push 1 _INBOX.x"} {
				sent.WriteString(headed(lost, large, body))
				fmt.Fprintf(&sent, "MSG %s %d\r\n%s\r\n", lost, len(body), body)
			}
			sent.WriteString(headed("pq.jobs.push 1", large, body))
			want.WriteString(instead("pq.jobs.push 1"))
		}
	}
	both("MSG a 1 x\r\nHMSG a 1 9 5\r\nHMSG a 1\r\nMSG\r\n\r\n") // nothing that a server sends
	both(strings.Repeat("y", 200_000) + "\r\n")
	for seed := range uint64(4) {
		s := &messageFilter{from: &byPieces{strings.NewReader(sent.String()), rand.New(rand.NewPCG(seed, 1))}}
		got, err := io.ReadAll(&byPieces{s, rand.New(rand.NewPCG(seed, 2))})
		if err != nil || !bytes.Equal(got, []byte(want.String())) {
			t.Fatalf("seed %d: read %d bytes, expected %d; %v", seed, len(got), want.Len(), err)
		}
	}
	got, err := io.ReadAll(&messageFilter{from: iotest.OneByteReader(strings.NewReader(sent.String()[:100_000]))})
	if err != nil || !bytes.HasPrefix([]byte(want.String()), got) || len(got) < 100_000-filterHold {
		t.Errorf("byte by byte: read %d bytes; %v", len(got), err)
	}
	broken := errors.New("broken")
	if got, err := io.ReadAll(&messageFilter{from: io.MultiReader(strings.NewReader("PING\r\nPI"), iotest.ErrReader(broken))}); string(got) != "PING\r\n" || err != broken {
		t.Errorf("read %q, %v", got, err)
	}
}

// While the server holds too much, large messages arrive without body and headers, and
// say so. Small ones, and what comes later, arrive as they were.
func TestMessageFilterUnderPressure(t *testing.T) {
	t.Parallel()
	const info = "INFO {\"client_id\":7}\r\n"
	large := strings.Repeat("x", filterAsk)
	message := func(subject, body string) string {
		return fmt.Sprintf("MSG %s %d\r\n%s\r\n", subject, len(body), body)
	}
	headed := func(subject, block, body string) string {
		return fmt.Sprintf("HMSG %s %d %d\r\n%s%s\r\n", subject, len(block), len(block)+len(body), block, body)
	}
	answers := []bool{false, true, true, true, false}
	var asked []int
	shed := 0
	s := &messageFilter{shed: func() { shed++ }, behind: func(got []byte, size int) bool {
		if string(got) != info {
			t.Errorf("asked about %q, expected %q", got, info)
		}
		asked = append(asked, size)
		return answers[len(asked)-1]
	}}
	block := "NATS/1.0\r\nA: b\r\n\r\n"
	s.from = strings.NewReader(info +
		message("a 1 _INBOX.a", large) + message("b 1 _INBOX.b", large) + message("c 1", "small") +
		headed("d 1 _INBOX.d", block, large[:filterLarge]) + headed("e 1", block, "small") + message("f 1", large) +
		message("g 1 _INBOX.g", large[:filterLarge]) + message("h 1", large[:filterLarge]))
	want := info +
		message("a 1 _INBOX.a", large) + headed("b 1 _INBOX.b", bridge.TooManyBytes, "") + message("c 1", "small") +
		headed("d 1 _INBOX.d", bridge.TooManyBytes, "") + headed("e 1", block, "small") + headed("f 1", bridge.TooManyBytes, "") +
		message("g 1 _INBOX.g", large[:filterLarge]) + message("h 1", large[:filterLarge])
	got, err := io.ReadAll(s)
	if err != nil || string(got) != want {
		t.Errorf("read %d bytes, expected %d; %v", len(got), len(want), err)
	}
	frame := len("\r\n")
	sizes := []int{len(large) + frame, len(large) + frame, len(block) + filterLarge + frame, len(large) + frame, filterLarge + frame}
	if !slices.Equal(asked, sizes) {
		t.Errorf("asked about messages of %v bytes, expected %v", asked, sizes)
	}
	if shed != 3 { // b, d and f
		t.Errorf("%d times it was told that a message was shed, expected 3", shed)
	}
}

// flood refuses messages whose subjects begin so.
type flood struct {
	prefix  string
	refused []string
	counts  string // subjects begin so whose headers make a flood of them
	headers []int  // what was counted
}

func (f *flood) Any() bool { return f.prefix != "" }

func (f *flood) Headers(subject string, lines int) {
	f.headers = append(f.headers, lines)
	if f.counts != "" && strings.HasPrefix(subject, f.counts) {
		f.prefix = f.counts
	}
}

func (f *flood) Refuse(subject, reply string) bool {
	if !strings.HasPrefix(subject, f.prefix) {
		return false
	}
	f.refused = append(f.refused, subject+" "+reply)
	return true
}

// The messages of a tenant that sends too much are left out, whatever they are. All others arrive as they were.
func TestMessageFilterBesideFlood(t *testing.T) {
	t.Parallel()
	many := "NATS/1.0\r\n" + strings.Repeat("A: b\r\n", 2*protocol.MaxHeaderLines) + "\r\n"
	var sent, want strings.Builder
	var refused []string
	for i, body := range []string{"", "x", "MSG pq.B.jobs.push 1 1\r\n", strings.Repeat("x", 1<<20)} {
		for _, reply := range []string{"", "_INBOX.x", "_INBOX.\u00a0x\v\f\u0085\u2003"} {
			to := "pq.A.jobs.push 7 "
			if reply != "" {
				to += reply + " "
			}
			fmt.Fprintf(&sent, "MSG %s%d\r\n%s\r\n", to, len(body), body)
			for _, block := range []string{"NATS/1.0\r\nnonsense\r\n\r\n", many} {
				fmt.Fprintf(&sent, "HMSG %s%d %d\r\n%s%s\r\n", to, len(block), len(block)+len(body), block, body)
			}
			for range 3 {
				refused = append(refused, "pq.A.jobs.push "+reply)
			}
		}
		other := fmt.Sprintf("PING\r\nMSG pq.B%d.jobs.push 7 _INBOX.y %d\r\n%s\r\n", i, len(body), body)
		sent.WriteString(other)
		want.WriteString(other)
	}
	for seed := range uint64(4) {
		f := &flood{prefix: "pq.A."}
		s := &messageFilter{from: &byPieces{strings.NewReader(sent.String()), rand.New(rand.NewPCG(seed, 1))}, floods: f}
		got, err := io.ReadAll(&byPieces{s, rand.New(rand.NewPCG(seed, 2))})
		if err != nil || string(got) != want.String() {
			t.Errorf("seed %d: read %d bytes, expected %d; %v", seed, len(got), want.Len(), err)
		}
		if !slices.Equal(f.refused, refused) {
			t.Errorf("seed %d: refused %q", seed, f.refused)
		}
	}
	s := &messageFilter{from: strings.NewReader(want.String()), floods: new(flood)}
	if got, err := io.ReadAll(s); err != nil || string(got) != want.String() {
		t.Errorf("without a flood: read %d bytes, expected %d; %v", len(got), want.Len(), err)
	}
}

// The lines of headers are counted before anything else reads them, but for messages with few. One with which they are a flood is
// left out, and so are those behind it.
func TestMessageFilterCountsHeaders(t *testing.T) {
	t.Parallel()
	message := func(subject string, lines int) string {
		block := "NATS/1.0\r\n" + strings.Repeat("A: b\r\n", lines-2) + "\r\n"
		return fmt.Sprintf("HMSG %s 7 %d %[2]d\r\n%s\r\n", subject, len(block), block)
	}
	few, more, many := message("pq.A.x", filterLines), message("pq.B.x", filterLines+1), message("pq.A.x", 300)
	f := &flood{counts: "pq.A."}
	got, err := io.ReadAll(&messageFilter{from: strings.NewReader(few + more + many + few + more), floods: f})
	if want := few + more + more; err != nil || string(got) != want {
		t.Errorf("read %q, expected %q; %v", got, want, err)
	}
	if want := []int{filterLines + 1, 300, filterLines + 1}; !slices.Equal(f.headers, want) || len(f.refused) != 2 {
		t.Errorf("counted %v, expected %v; refused %v, expected 2", f.headers, want, f.refused)
	}
}
