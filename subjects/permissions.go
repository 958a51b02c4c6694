package subjects

import (
	"slices"
	"strings"
)

// Permissions are the patterns that a server lets a user publish and subscribe
// to, in the sense of permissions.publish.allow and permissions.subscribe.allow
// of its configuration. A user who does several things needs the union.
type Permissions struct {
	Publish, Subscribe []string
}

// Inbox is where clients get their replies by default. A subscriber of all of it
// reads the replies of others; see [Permissions.WithInbox].
const Inbox = "_INBOX.>"

// accountReplies are the reply subjects that servers make up for requests from
// other accounts.
const accountReplies = "_R_.>"

// InboxPrefix returns the inbox prefix of a user who has one of its own, for
// nats.CustomInboxPrefix and the like in other client libraries. The bridge
// answers there like in any inbox.
func InboxPrefix(user string) (string, error) {
	if err := checkToken("user", user); err != nil {
		return "", err
	}
	return strings.TrimSuffix(Inbox, ">") + user, nil
}

// WithInbox returns the permissions with an inbox of the user's own instead of
// all inboxes: no other user reads its replies, and it reads no other user's.
func (p Permissions) WithInbox(user string) (Permissions, error) {
	prefix, err := InboxPrefix(user)
	if err != nil {
		return Permissions{}, err
	}
	own := Permissions{Publish: p.Publish}
	for _, pattern := range p.Subscribe {
		if pattern == Inbox {
			pattern = prefix + ".>"
		}
		own.Subscribe = append(own.Subscribe, pattern)
	}
	return own, nil
}

// discovery are the subjects of the NATS service API that concern the service
// pq: its name is the same under every prefix.
var discovery = []string{"$SRV.*", "$SRV.*.pq", "$SRV.*.pq.*"}

// every stands for all queues where the name of one is asked for.
const every = "*"

// Producer returns what it takes to push to a queue, or to all when queue is *.
// To allow one priority only, replace the pattern of push.* by its subject.
func (g Grammar) Producer(queue string) (Permissions, error) {
	return g.client(queue, "push", "push.*")
}

// Importer returns the permissions to put items back where they stood in a queue.
// The bridge trusts the ids of imports.
func (g Grammar) Importer(queue string) (Permissions, error) {
	return g.client(queue, "import")
}

// Consumer returns what it takes to look at, pop, lease and settle items. The
// dead-letter queue is another queue.
func (g Grammar) Consumer(queue string) (Permissions, error) {
	return g.client(queue, "pop.*", "peek.*", "ack.*.*")
}

// Requeuer returns what it takes to list the dead letters of a queue, which are in
// its own dead-letter queue, and to push them to it again.
func (g Grammar) Requeuer(queue string) (Permissions, error) {
	p, err := g.client(queue, "info", "push", "push.*")
	if err != nil {
		return Permissions{}, err
	}
	dead := every
	if queue != every {
		dead = DeadLetter(queue)
	}
	for _, verb := range []string{"list", "get.*", "remove.*"} {
		p.Publish = append(p.Publish, g.prefix+dead+"."+verb)
	}
	return p, nil
}

// Viewer returns what it takes to see a queue and its items without changing
// anything; with *, also the list of queues and the bridges themselves.
func (g Grammar) Viewer(queue string) (Permissions, error) {
	return g.viewer(queue, "info", "list", "get.*", "peek.*")
}

// Admin returns what it takes to see and change a queue and its items, short
// of pushing and popping.
func (g Grammar) Admin(queue string) (Permissions, error) {
	return g.viewer(queue, "info", "list", "get.*", "peek.*", "remove.*", "move.*.*", "admin.*")
}

func (g Grammar) viewer(queue string, verbs ...string) (Permissions, error) {
	p, err := g.client(queue, verbs...)
	if err != nil {
		return Permissions{}, err
	}
	p.Subscribe = append(p.Subscribe, g.Events(queue))
	if queue == every {
		p.Publish = append(p.Publish, discovery...) // _sys is within reach of the wildcard
	}
	return p, nil
}

// client returns what it takes to send requests of these forms and be answered.
func (g Grammar) client(queue string, verbs ...string) (Permissions, error) {
	if queue != every {
		if err := CheckQueue(queue); err != nil {
			return Permissions{}, err
		}
	}
	p := Permissions{Subscribe: []string{Inbox}}
	for _, verb := range verbs {
		p.Publish = append(p.Publish, g.prefix+queue+"."+verb)
	}
	return p, nil
}

// Covers tells whether a pattern allows a subject, or all that a narrower pattern
// allows.
func Covers(pattern, narrower string) bool {
	for {
		token, rest, more := strings.Cut(pattern, ".")
		other, otherRest, otherMore := strings.Cut(narrower, ".")
		switch {
		case token == ">":
			return other != ""
		case other == "" || other == ">" || token != "*" && token != other || more != otherMore:
			return false
		case !more:
			return true
		}
		pattern, narrower = rest, otherRest
	}
}

// Beyond returns the patterns of p that allow more than needed does.
func (p Permissions) Beyond(needed Permissions) Permissions {
	beyond := func(patterns, needed []string) (more []string) {
		for _, pattern := range patterns {
			if !slices.ContainsFunc(needed, func(n string) bool { return Covers(n, pattern) }) {
				more = append(more, pattern)
			}
		}
		return more
	}
	return Permissions{Publish: beyond(p.Publish, needed.Publish), Subscribe: beyond(p.Subscribe, needed.Subscribe)}
}

// UserInfo is where a server tells a user what it may do.
const UserInfo = "$SYS.REQ.USER.INFO"

// Bridge returns what the bridge itself needs. It answers into inboxes by
// name rather than by allow_responses, which admits one message a request and
// would cut batches short. It asks for other bridges as it starts, because two
// with one prefix must not have different stores, and what it may do, because
// that should be no more than this.
func (g Grammar) Bridge() Permissions {
	return Permissions{
		Publish:   append([]string{g.Events(every), Inbox, accountReplies, UserInfo}, discovery...),
		Subscribe: append([]string{g.All(), Inbox}, discovery...),
	}
}
