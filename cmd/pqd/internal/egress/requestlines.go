package egress

import (
	"bytes"
	"fmt"
	"slices"
)

// Requests says which messages on a route are requests to the bridge of the active node, and what takes the place of a large one.
type Requests struct {
	Account  string
	Prefixes []string // of their subjects, with the dot
	Group    string   // the queue group of bridges
	Large    int      // the least size of one that is replaced
	Instead  string   // a header block
}

// look reads a line that a server sends on a route. It returns how many bytes of a message follow, and what takes the place of
// line and message; nil: nothing does. sheds is asked about large requests alone, with the size of line and message.
func (r *Requests) look(line []byte, sheds func(size int) bool) (size int, instead []byte) {
	sizes := 1 // at the end of the line
	switch {
	case bytes.HasPrefix(line, []byte("RMSG ")):
	case bytes.HasPrefix(line, []byte("HMSG ")), bytes.HasPrefix(line, []byte("LMSG ")):
		sizes = 2
	default:
		return 0, nil
	}
	size, to, ok := LastNumber(line)
	if !ok {
		return 0, nil
	}
	size += len("\r\n")
	if size < r.Large {
		return size, nil
	}
	if sizes == 2 {
		if _, to, ok = LastNumber(to); !ok {
			return size, nil
		}
	}
	if !r.has(bytes.Fields(to)) || !sheds(len(line)+size) {
		return size, nil
	}
	kind := "HMSG" // an RMSG has no headers
	if line[0] == 'L' {
		kind = "LMSG"
	}
	return size, fmt.Appendf(nil, "%s%s%d %[3]d\r\n%s\r\n", kind, to[len(kind):], len(r.Instead), r.Instead)
}

// has reports whether the fields of a line, without sizes, are those of a request. A message to one queue group has the
// kind, with LMSG the cluster from which it comes, the account, the subject, "|" or "+" with the reply subject, and the
// group.
func (r *Requests) has(fields [][]byte) bool {
	if string(fields[0]) == "LMSG" {
		fields = fields[1:]
	}
	switch {
	case len(fields) == 5 && string(fields[3]) == "|":
	case len(fields) == 6 && string(fields[3]) == "+":
	default:
		return false
	}
	return string(fields[1]) == r.Account && string(fields[len(fields)-1]) == r.Group &&
		slices.ContainsFunc(r.Prefixes, func(prefix string) bool { return bytes.HasPrefix(fields[2], []byte(prefix)) })
}

// LastNumber reads the number at the end of a line of the protocol between clients and servers, and returns the line before
// it, with the space.
func LastNumber(line []byte) (n int, before []byte, ok bool) {
	line = bytes.TrimRight(line, " \t\r\n")
	at := len(line)
	for unit := 1; at > 0 && line[at-1] >= '0' && line[at-1] <= '9' && unit <= 1e9; unit *= 10 {
		at--
		n += unit * int(line[at]-'0')
	}
	return n, line[:at], at < len(line) && at > 0 && line[at-1] == ' '
}
