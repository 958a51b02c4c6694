package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

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
	if hint := cmp.Or(s.InboxHint(err), Hint(err)); hint != "" {
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

var ofLibrary = strings.NewReplacer(": nats: ", ": ", ": nkeys: ", ": ", "permissions violation: Permissions Violation ", "permissions violation ")

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
		shown.Error, shown.Code, shown.Reason = e.Description, e.Code, e.Reason
	}
	_ = show.WriteJSON(show.HarmlessJSON{To: s.Stderr}, shown) // as all that goes to standard error
}
