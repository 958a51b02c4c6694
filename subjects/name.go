package subjects

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// MaxQueue bounds the bytes of a queue's name, MaxID the bytes of an item's id.
const (
	MaxQueue = 64
	MaxID    = 128
)

// A NATS server ends a connection that sends it a longer protocol line than its max_control_line, 4,096 bytes by
// default. The line of an answer has the reply subject that the client chose and the subject that settles the item,
// so both have bounds.
const (
	MaxReply = 1024 // of a reply subject
	MaxToken = 512  // of a token of a subject that settles; tokens that bridges make have some 200 bytes
)

// ErrTooLong is wrapped by errors about reply subjects and tokens beyond these bounds.
var ErrTooLong = errors.New("too long")

// deadSuffix ends the names of default dead-letter queues. It may follow a name of full
// length.
const deadSuffix = "-dead"

// DeadLetter returns the name of the queue's default dead-letter queue.
func DeadLetter(queue string) string { return queue + deadSuffix }

// CheckQueue returns an error unless a queue may have this name: 1 to 64 of A-Z a-z 0-9
// - _, not starting with _, and up to 69 when the name ends in -dead.
func CheckQueue(name string) error {
	if len(name) > MaxQueue+len(deadSuffix) ||
		len(name) > MaxQueue && !strings.HasSuffix(name, deadSuffix) ||
		!isName(name) || name[0] == '_' {
		return fmt.Errorf("queue name %s: expected 1 to %d of A-Z a-z 0-9 - _, not starting with _ (%d when it ends in %s)",
			quote(name), MaxQueue, MaxQueue+len(deadSuffix), deadSuffix)
	}
	return nil
}

// CheckTenant returns an error unless a tenant may have this name: 1 to 64 of A-Z a-z 0-9 - _, not
// starting with _.
func CheckTenant(name string) error {
	if len(name) > MaxQueue || !isName(name) || name[0] == '_' {
		return fmt.Errorf("tenant %s: expected 1 to %d of A-Z a-z 0-9 - _, not starting with _", quote(name), MaxQueue)
	}
	return nil
}

// Tenant returns the tenant in the name of a queue, "" if it has none.
func Tenant(queue string) string { return queue[:max(0, strings.LastIndexByte(queue, '.'))] }

// Own returns the name of a queue without its tenant, as the tenant uses it.
func Own(queue string) string { return queue[strings.LastIndexByte(queue, '.')+1:] }

// Beside returns the name of the queue with the own name own that belongs to the same tenant as a queue.
func Beside(queue, own string) string { return queue[:len(queue)-len(Own(queue))] + own }

// CheckName is CheckQueue for names with their tenant, if the grammar has tenants.
func (g Grammar) CheckName(queue string) error {
	if g.tenants {
		tenant, own, both := strings.Cut(queue, ".")
		if !both {
			return fmt.Errorf("queue %s: expected its tenant in front of it, such as ACME.jobs", quote(queue))
		}
		if err := CheckTenant(tenant); err != nil {
			return err
		}
		queue = own
	}
	return CheckQueue(queue)
}

// CheckStored is CheckQueue for names with or without their tenant.
func CheckStored(queue string) error {
	return Grammar{tenants: strings.Contains(queue, ".")}.CheckName(queue)
}

// CheckPattern returns an error unless a pattern may be in a list of permissions: tokens
// joined by dots, of which * matches one token, and > at the end one or more.
func CheckPattern(pattern string) error {
	tokens := strings.Split(pattern, ".")
	for i, token := range tokens {
		if token == "" || strings.ContainsFunc(token, unicode.IsSpace) || token == ">" && i < len(tokens)-1 {
			return fmt.Errorf("pattern %s: expected tokens joined by dots, such as _INBOX_app.>", quote(pattern))
		}
	}
	return nil
}

func checkID(id string) error {
	if len(id) > MaxID || !isName(id) {
		return fmt.Errorf("id %s: expected 1 to %d of A-Z a-z 0-9 - _", quote(id), MaxID)
	}
	return nil
}

func checkToken(what, token string) error {
	if len(token) > MaxToken {
		return fmt.Errorf("%s %s is %w: expected at most %d bytes", what, quote(token), ErrTooLong, MaxToken)
	}
	if !isName(token) {
		return fmt.Errorf("%s %s: expected one or more of A-Z a-z 0-9 - _", what, quote(token))
	}
	return nil
}

// isName reports whether s is one token of the characters that names may have.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return s != ""
}

// quote quotes a client's text for an error, which is sent in a header: without control
// characters, and shortened.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
