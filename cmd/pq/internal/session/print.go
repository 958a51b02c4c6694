package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// Print writes to standard output.
func (s *Session) Print(text string) error {
	_, err := io.WriteString(s.Stdout, text)
	return err
}

// PrintPayload writes a payload to standard output. What a producer sends moves no cursor and sets no title of a terminal; a
// file or a pipe has it byte for byte.
func (s *Session) PrintPayload(payload []byte) error {
	text := string(show.Line(payload))
	if interactive(s.Stdout) {
		text = show.Harmless(text)
	}
	return s.Print(text)
}

// Printf writes a line to standard output. What others have sent does nothing to a terminal.
func (s *Session) Printf(format string, args ...any) error {
	return s.PrintPayload(fmt.Appendf(nil, format+"\n", args...))
}

// Tell writes a line to standard error. Its text may be of whoever answers in the place of pqd, so it does nothing to a terminal.
func (s *Session) Tell(format string, args ...any) {
	fmt.Fprintln(s.Stderr, show.Harmless(fmt.Sprintf(format, args...)))
}

// Say writes a line for people. With --json it writes nothing.
func (s *Session) Say(format string, args ...any) {
	if !s.Global.JSON {
		s.Tell(format, args...)
	}
}

// PrintJSON writes an object as one line.
func (s *Session) PrintJSON(v any) error { return show.WriteJSON(s.OfJSON(s.Stdout), v) }

// OfJSON is a writer of lines of JSON. If they end at a terminal they do nothing to it.
func (s *Session) OfJSON(w io.Writer) io.Writer {
	if interactive(s.Stdout) {
		return show.HarmlessJSON{To: w}
	}
	return w
}

// Answer writes an object with --json, and the text without.
func (s *Session) Answer(v any, format string, args ...any) error {
	if s.Global.JSON {
		return s.PrintJSON(v)
	}
	return s.Printf(format, args...)
}

// Report prints the error and returns the exit code.
func (s *Session) Report(err error) int {
	var exit ExitError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return int(exit)
	case s.Context.Err() != nil && errors.Is(context.Cause(s.Context), context.Canceled):
		if s.Unfinished != "" {
			s.Say("%s", s.Unfinished)
		}
		return ExitInterrupted
	}
	code := exitCode(err)
	if s.Warn(err); s.Global.JSON {
		return code
	}
	if hint := cmp.Or(s.InboxHint(err), s.clusterHint(err), Hint(err)); hint != "" {
		s.Tell("%s", hint)
	}
	if s.Unfinished != "" {
		s.Tell("%s", s.Unfinished)
	}
	return code
}

// Warn prints an error.
func (s *Session) Warn(err error) {
	if s.Global.JSON {
		s.warnJSON(err, exitCode(err))
		return
	}
	s.Tell("pq: %s", WithoutPrefix(err))
}

// WithoutPrefix is the text of an error without what nats.go puts in front of its own.
func WithoutPrefix(err error) string {
	return ofLibrary.Replace(strings.TrimPrefix(err.Error(), "nats: "))
}

// ofLibrary are words of libraries, and the names that flags have in the protocol.
var ofLibrary = strings.NewReplacer(append(flagsOfHeaders(),
	": nats: ", ": ", ": nkeys: ", ": ", "permissions violation: Permissions Violation ", "permissions violation ", ": ask again with Result", "",
	protocol.HeaderWait, "--wait",
)...)

// flagsOfHeaders are the headers of pushes, each with its flag, the longest first: some begin like others.
func flagsOfHeaders() (pairs []string) {
	all := slices.Clone(protocol.PushHeaders)
	slices.SortFunc(all, func(a, b protocol.PushHeader) int { return cmp.Compare(len(b.Name), len(a.Name)) })
	for _, h := range all {
		if strings.HasPrefix(h.Name, protocol.HeaderPrefix) {
			pairs = append(pairs, h.Name, "--"+strings.ReplaceAll(h.Word, "_", "-"))
		}
	}
	return pairs
}

// Hint returns advice about an error, or nothing if the error is clear.
func Hint(err error) string {
	var usage *UsageError
	switch {
	case errors.As(err, &usage) && usage.Command != nil && usage.Command.HasParent():
		return fmt.Sprintf(`"pq help %s" has the usage and examples.`, CommandName(usage.Command))
	case errors.As(err, &usage):
		return `"pq help" lists the commands.`
	case errors.Is(err, nats.ErrNoResponders):
		return `Is pqd running, and is its prefix the same (--prefix)? "pq doctor" looks closer.`
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), unreachable(err):
		return `Is the NATS server there? Say where with --server, NATS_URL, or a context of the nats command.`
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return "Log in with --creds, --nkey, --token, --user and --password, or a context of the nats command."
	case errors.Is(err, nats.ErrPermissionViolation):
		return "The NATS server does not let this user do that: it needs the permission to publish or subscribe there."
	}
	return ""
}

var deniedSubscription = regexp.MustCompile(`(?i)permissions violation for subscription to "([^"]+)"`)

// InboxHint returns advice about an error when the user may not receive answers where pq asks
// for them.
func (s *Session) InboxHint(err error) string {
	denied := deniedSubscription.FindStringSubmatch(err.Error())
	if s.NC == nil || denied == nil || !errors.Is(err, nats.ErrPermissionViolation) {
		return ""
	}
	inboxes := cmp.Or(s.NC.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	if !strings.HasPrefix(denied[1], inboxes+".") {
		return ""
	}
	// As docs and deploy/nats.conf set users up.
	likely := nats.InboxPrefix + "<user>"
	if l, _, err := s.Login(); err == nil && l.User != "" && l.Password != "" {
		likely = nats.InboxPrefix + l.User
	}
	if likely == inboxes {
		likely = "<subject>"
	}
	return fmt.Sprintf("This user may not receive answers on %s.>: say where it may with --inbox-prefix %s (NATS_INBOX_PREFIX).", inboxes, likely)
}

// warnJSON is how errors look with --json.
func (s *Session) warnJSON(err error, code int) {
	shown := struct {
		Error  string        `json:"error"`
		Exit   int           `json:"exit"`
		Code   int           `json:"code,omitempty"`
		Reason client.Reason `json:"reason,omitempty"`
	}{Error: WithoutPrefix(err), Exit: code}
	var e *client.Error
	if errors.As(err, &e) {
		shown.Error, shown.Code, shown.Reason = ofLibrary.Replace(e.Description), e.Code, e.Reason
	}
	_ = show.WriteJSON(show.HarmlessJSON{To: s.Stderr}, shown) // as all that goes to standard error
}

// Progress draws a bar during long work, if the output is a terminal.
type Progress struct {
	out     io.Writer // nil: no terminal
	what    string
	total   int64 // 0: not known
	unit    func(int64) string
	started time.Time

	mu    sync.Mutex
	done  int64
	drawn time.Time
}

// drawEvery is how often the bar changes.
const drawEvery = 100 * time.Millisecond

// Progress starts one; unit writes how much is done, of how much, and per second.
func (s *Session) Progress(what string, total int64, unit func(int64) string) *Progress {
	p := &Progress{what: what, total: total, unit: unit, started: time.Now()}
	if interactive(s.Stderr) && !s.Global.JSON {
		p.out = s.Stderr
	}
	return p
}

// Set sets how much is done.
func (p *Progress) Set(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
	if now := time.Now(); p.out != nil && now.Sub(p.drawn) >= drawEvery {
		p.drawn = now
		fmt.Fprintf(p.out, "\r%s\x1b[K", bar(p.what, p.done, p.total, now.Sub(p.started), p.unit))
	}
}

// Add adds to how much is done.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	done := p.done + n
	p.mu.Unlock()
	p.Set(done)
}

// End takes the bar away.
func (p *Progress) End() {
	if p.out != nil {
		fmt.Fprint(p.out, "\r\x1b[K")
	}
}

// bar is the text of a progress bar.
func bar(what string, done, total int64, elapsed time.Duration, unit func(int64) string) string {
	rate := 0.0
	if elapsed > 0 {
		rate = float64(done) / elapsed.Seconds()
	}
	if total <= 0 {
		return fmt.Sprintf("%s %s  %s/s", what, unit(done), unit(int64(rate)))
	}
	const width = 30
	share := min(1, float64(done)/float64(total))
	full := int(share * width)
	left := "?"
	if rate > 0 {
		left = show.Span(time.Duration(float64(max(0, total-done)) / rate * float64(time.Second)).Round(time.Second))
	}
	return fmt.Sprintf("%s [%s%s] %3.0f%%  %s of %s  %s/s  %s left",
		what, strings.Repeat("=", full), strings.Repeat(" ", width-full), share*100,
		unit(done), unit(total), unit(int64(rate)), left)
}
