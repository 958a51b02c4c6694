package subjects

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Subject is a parsed subject. Fields that its verb does not have are zero.
type Subject struct {
	Queue       string // for all verbs except the verbs of the system; with its tenant, if the grammar has tenants
	Tenant      string // the asking tenant, for the verbs of the system; "": none
	Verb        Verb
	Priority    int64  // for Move, and for Push where the subject has one
	HasPriority bool   // distinguishes priority 0 from none
	ID          string // for Get, Result, Cancel, Remove, Move, Requeue and Revoke
	Key         string // for Key and AdminKey, as items have it
	Schedule    string // its name, for the verbs of one schedule
	Source      string // its name, for the verbs of one source
	Link        string // its name, for the verbs of one link
	Event       string // the type of an Event
	Conn, Token string // for Ack: the connection that granted the lease, and its token
	AtSite      bool   // the subject begins with the name of the site
}

// Parse parses a subject. The fields share its memory, but for a key with escaped bytes.
func (g Grammar) Parse(subject string) (Subject, error) {
	rest, atSite, under := g.cut(subject)
	if !under || g.prefix == "" {
		return Subject{}, fmt.Errorf("subject %s: expected one that starts with %s", quote(subject), quote(g.prefix))
	}
	t := tokens{rest: rest, left: true}
	queue := t.next()
	tenant := ""
	if g.tenants && queue != sysToken {
		tenant, queue = queue, t.next()
		if err := CheckTenant(tenant); err != nil {
			return Subject{}, err
		}
	}
	if queue == sysToken {
		s, err := parseSys(subject, t, tenant)
		s.AtSite = atSite && err == nil
		return s, err
	}
	if err := CheckQueue(queue); err != nil {
		return Subject{}, err
	}
	if g.tenants {
		queue = rest[:len(tenant)+len(queue)+1]
	}

	s := Subject{Queue: queue, AtSite: atSite}
	form, err := s.readVerb(&t)
	if form != "" && (s.Verb == 0 || t.short || t.left) {
		err = fmt.Errorf("subject %s: expected %s after the queue's name", quote(subject), form)
	}
	if err != nil {
		return Subject{}, err
	}
	return s, nil
}

func parseSys(subject string, t tokens, tenant string) (Subject, error) {
	if tenant != "" && (t.rest == "cluster" || strings.HasPrefix(t.rest, "cluster.")) {
		return Subject{}, fmt.Errorf("subject %s: the nodes are those of all tenants, expected list or info alone after %s", quote(subject), sysToken)
	}
	s := Subject{Tenant: tenant}
	if s.readSystem(&t); s.Verb == 0 || t.left {
		return Subject{}, fmt.Errorf("subject %s: expected %s alone after %s", quote(subject), systemVerbs, sysToken)
	}
	return s, nil
}

// checkName returns an error unless a schedule, a source or a link may have the name.
func checkName(of, name string) error {
	other := func(c rune) bool { return !strings.ContainsRune(nameRunes, c) }
	if name != "" && len(name) <= maxNameLength && !strings.ContainsFunc(name, other) {
		return nil
	}
	return fmt.Errorf("%s %s: expected a name of 1 to %d of A-Z a-z 0-9 - _", of, quote(name), maxNameLength)
}

const (
	maxNameLength = 64
	nameRunes     = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// tokens iterates over the tokens of a subject. In a subject that a server would not deliver, a token may be empty.
type tokens struct {
	rest  string
	left  bool // rest is at least one token
	short bool // more tokens were asked for than there are
}

func (t *tokens) next() (token string) {
	if !t.left {
		t.short = true
		return ""
	}
	token, t.rest, t.left = strings.Cut(t.rest, ".")
	return token
}

// Build builds a subject. It returns an error for fields that Parse would not return:
// invalid names, and fields that the verb does not have.
func (g Grammar) Build(s Subject) (string, error) {
	if s.Verb < Push || s.Verb >= Verbs {
		return "", errors.New("subject without a verb")
	}
	if s.AtSite && g.site == "" {
		return "", errors.New("subject of a site, and the grammar has none")
	}
	b := []byte(g.Of(s).prefix)
	if s.Verb <= Event {
		// Checked here, because Parse would report a dot in it as another error.
		if err := g.CheckName(s.Queue); err != nil {
			return "", err
		}
		b = append(append(b, s.Queue...), '.')
	} else if s.Tenant != "" {
		if err := CheckTenant(s.Tenant); err != nil || !g.tenants {
			return "", cmp.Or(err, errors.New("subject of a tenant, and the grammar has none"))
		}
		b = append(append(b, s.Tenant...), '.')
	}
	if err := s.checkNames(); err != nil {
		return "", err
	}
	subject := string(s.appendVerb(b))
	back, err := g.Parse(subject)
	if err != nil {
		return "", err
	}
	if back != s {
		return "", fmt.Errorf("subject %s: expected only the fields that %s has, and all of them", quote(subject), s.Verb)
	}
	return subject, nil
}

// AppendAck appends the subject that settles a lease, under the prefix of g. It checks nothing: the bridge builds
// one for each leased item, from valid names.
func (g Grammar) AppendAck(b []byte, queue, conn string, token []byte) []byte {
	b = append(append(b, g.prefix...), queue...)
	b = append(append(b, ".ack."...), conn...)
	return append(append(b, '.'), token...)
}

// ParsePriority parses a priority in its canonical form. It refuses other spellings, since
// permissions for a priority's subject would not cover them.
func ParsePriority(s string) (int64, error) {
	digits := strings.TrimPrefix(s, "-")
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, errPriority(s)
		}
	}
	if digits == "" || digits[0] == '0' && s != "0" {
		return 0, errPriority(s)
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("priority %s: expected -9223372036854775808 to 9223372036854775807", quote(s))
	}
	return v, nil
}

func errPriority(s string) error {
	return fmt.Errorf("priority %s: expected an integer in decimal, without +, leading zeros or spaces", quote(s))
}

func appendPriority(b []byte, priority int64) []byte {
	return strconv.AppendInt(append(b, '.'), priority, 10)
}

// Verb is the operation that a subject requests. The zero Verb is invalid.
type Verb uint8

// Administers reports whether requests with the verb are an administrator's.
func (v Verb) Administers() bool { return strings.HasPrefix(v.String(), "admin.") }

// String returns the verb's tokens in a subject, such as "pop.min".
func (v Verb) String() string {
	if v < Push || int(v) >= len(verbNames) {
		return "none"
	}
	return verbNames[v]
}

// Pattern returns the pattern of requests with the verb, behind the prefix. Verbs that differ in one token share theirs.
func (v Verb) Pattern() string {
	if v < Push || int(v) >= len(patterns) {
		return ""
	}
	return patterns[v]
}
