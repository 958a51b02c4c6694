package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// report prints the error and returns the exit code.
func (s *session) report(err error) int {
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return int(exit)
	case s.ctx.Err() != nil && errors.Is(context.Cause(s.ctx), context.Canceled):
		if s.unfinished != "" {
			s.say("%s", s.unfinished)
		}
		return exitInterrupted
	}
	code := exitCode(err)
	if s.warn(err); s.global.json {
		return code
	}
	if hint := cmp.Or(s.inboxHint(err), hint(err)); hint != "" {
		fmt.Fprintln(s.stderr, hint)
	}
	if s.unfinished != "" {
		fmt.Fprintln(s.stderr, s.unfinished)
	}
	return code
}

// warn prints an error.
func (s *session) warn(err error) {
	if s.global.json {
		s.warnJSON(err, exitCode(err))
		return
	}
	fmt.Fprintf(s.stderr, "pq: %s\n", withoutPrefix(err))
}

// withoutPrefix is the text of an error without what nats.go puts in front of its own.
func withoutPrefix(err error) string {
	return ofLibrary.Replace(strings.TrimPrefix(err.Error(), "nats: "))
}

var ofLibrary = strings.NewReplacer(": nats: ", ": ", ": nkeys: ", ": ", "permissions violation: Permissions Violation ", "permissions violation ")

// hint returns advice about an error, or nothing if the error is clear.
func hint(err error) string {
	var usage *usageError
	switch {
	case errors.As(err, &usage) && usage.command != nil && usage.command.HasParent():
		return fmt.Sprintf(`"pq help %s" has the usage and examples.`, commandName(usage.command))
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

// inboxHint returns advice about an error when the user may not receive answers where pq asks
// for them.
func (s *session) inboxHint(err error) string {
	denied := deniedSubscription.FindStringSubmatch(err.Error())
	if s.nc == nil || denied == nil || !errors.Is(err, nats.ErrPermissionViolation) {
		return ""
	}
	inboxes := cmp.Or(s.nc.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, "."))
	if !strings.HasPrefix(denied[1], inboxes+".") {
		return ""
	}
	// As docs and deploy/nats.conf set users up.
	likely := nats.InboxPrefix + "<user>"
	if l, _, err := s.login(); err == nil && l.User != "" && l.Password != "" {
		likely = nats.InboxPrefix + l.User
	}
	if likely == inboxes {
		likely = "<subject>"
	}
	return fmt.Sprintf("This user may not receive answers on %s.>: say where it may with --inbox-prefix %s (NATS_INBOX_PREFIX).", inboxes, likely)
}

// warnJSON is how errors look with --json.
func (s *session) warnJSON(err error, code int) {
	shown := struct {
		Error  string        `json:"error"`
		Exit   int           `json:"exit"`
		Code   int           `json:"code,omitempty"`
		Reason client.Reason `json:"reason,omitempty"`
	}{Error: withoutPrefix(err), Exit: code}
	var e *client.Error
	if errors.As(err, &e) {
		shown.Error, shown.Code, shown.Reason = e.Description, e.Code, e.Reason
	}
	text, err := json.Marshal(shown)
	if err != nil {
		text = []byte(err.Error())
	}
	fmt.Fprintf(s.stderr, "%s\n", text)
}
