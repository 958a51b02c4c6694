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

// MaxKey bounds the bytes of an item's key.
const MaxKey = 128

const hexDigits = "0123456789ABCDEF"

// appendKey appends a key as one token: each byte but A-Z a-z 0-9 - _ is % and two
// hexadecimal digits.
func appendKey(b []byte, key string) []byte {
	for i := range len(key) {
		if c := key[i]; isName(key[i : i+1]) {
			b = append(b, c)
		} else {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return b
}

// unescapeKey returns the key that a token stands for. A key has one spelling, so that a
// permission for its subject is a permission for the key.
func unescapeKey(token string) (string, error) {
	const most = MaxKey * len("%XX")
	if token == "" || len(token) > most {
		return "", keyError(token)
	}
	if isName(token) && len(token) <= MaxKey {
		return token, nil
	}
	key := make([]byte, 0, MaxKey)
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '%' {
			if i+2 >= len(token) {
				return "", keyError(token)
			}
			high, low := strings.IndexByte(hexDigits, token[i+1]), strings.IndexByte(hexDigits, token[i+2])
			if high < 0 || low < 0 {
				return "", keyError(token)
			}
			c = byte(high<<4 | low)
			i += 2
			if isName(string(rune(c))) {
				return "", keyError(token)
			}
		} else if !isName(token[i : i+1]) {
			return "", keyError(token)
		}
		key = append(key, c)
	}
	if len(key) > MaxKey {
		return "", keyError(token)
	}
	return string(key), nil
}

func keyError(token string) error {
	return fmt.Errorf("key %s: expected 1 to %d bytes, of which A-Z a-z 0-9 - _ stand as they are, and all others as %%XX in upper case", quote(token), MaxKey)
}
