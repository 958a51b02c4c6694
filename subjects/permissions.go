package subjects

import (
	"slices"
	"strings"
)

// Permissions are the patterns that a server lets a user publish and subscribe
// to, in the sense of permissions.publish.allow and permissions.subscribe.allow
// of its configuration. A user with several roles needs the union.
type Permissions struct {
	Publish, Subscribe []string
}

// Inbox is the default pattern of reply subjects. A user who may subscribe to all of it
// can read the replies of other users; see [Permissions.WithInbox].
const Inbox = "_INBOX.>"

// accountReplies are the reply subjects that servers generate for requests from other
// accounts.
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

// WithInbox replaces the pattern of all inboxes by the user's own inbox, so that users
// cannot read each other's replies.
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

// every is the wildcard for all queues in place of a name.
const every = "*"

// Producer returns the permissions to push to a queue, or to all when queue is *.
// To allow one priority only, replace the pattern of push.* by its subject.
func (g Grammar) Producer(queue string) (Permissions, error) {
	return g.client(queue, producerMay...)
}

// Importer returns the permissions to import items into a queue. Import trusts the ids of
// items, so importers must be trusted.
func (g Grammar) Importer(queue string) (Permissions, error) {
	return g.client(queue, importerMay...)
}

// Consumer returns the permissions to peek, pop, lease and settle items, and to hear at once that a lease was ended by somebody else. The
// dead-letter queue is another queue.
func (g Grammar) Consumer(queue string) (Permissions, error) {
	p, err := g.client(queue, consumerMay...)
	if err == nil {
		p.Subscribe = append(p.Subscribe, g.Events(queue))
	}
	return p, err
}

// Taker returns the permissions to take the items of a queue by its links. To allow one link only, replace the pattern of
// link.* by its subject. A link gives items to one store alone, whoever asks.
func (g Grammar) Taker(queue string) (Permissions, error) {
	return g.client(queue, takerMay...)
}

// Caller returns the permissions to ask what became of items, and to cancel items, by their ids. Who pushes items and waits for their results needs those
// of a [Grammar.Producer], too.
func (g Grammar) Caller(queue string) (Permissions, error) {
	return g.client(queue, callerMay...)
}

// Requeuer returns the permissions to list the dead letters in a queue's default
// dead-letter queue, and to bring them back.
func (g Grammar) Requeuer(queue string) (Permissions, error) {
	p, err := g.client(queue, Info.String())
	if err != nil {
		return Permissions{}, err
	}
	dead := g.every()
	if queue != every {
		dead = DeadLetter(queue)
	}
	for _, verb := range requeuerMay {
		if verb != Info.String() {
			p.Publish = append(p.Publish, g.prefix+dead+"."+verb)
		}
	}
	return p, nil
}

// Viewer returns the permissions to read a queue and its items; with *, also the list of queues, the bridges, and
// the nodes of a replicated store.
func (g Grammar) Viewer(queue string) (Permissions, error) {
	return g.reader(queue, viewerMay)
}

// Admin returns the permissions to read and change a queue and its items, but not to push or pop them except
// through schedules; with *, also to make the active node step down, and to replace a lost one.
func (g Grammar) Admin(queue string) (Permissions, error) {
	p, err := g.reader(queue, adminMay)
	if err == nil && queue == every {
		p.addOfAll(g, adminOfAll)
	}
	return p, err
}

func (g Grammar) reader(queue string, verbs []string) (Permissions, error) {
	p, err := g.client(queue, verbs...)
	if err != nil {
		return Permissions{}, err
	}
	p.Subscribe = append(p.Subscribe, g.Events(queue))
	if queue == every {
		p.addOfAll(g, viewerOfAll)
		if g.tenants {
			p.Subscribe = append(p.Subscribe, g.SystemEvent(every))
		}
		p.Publish = append(p.Publish, discovery...)
	}
	return p, nil
}

// addOfAll adds the requests about no queue. Without tenants some are within reach of the wildcard.
func (p *Permissions) addOfAll(g Grammar, verbs []Verb) {
	for _, v := range verbs {
		subject := g.prefix + v.String()
		if !slices.ContainsFunc(p.Publish, func(pattern string) bool { return Covers(pattern, subject) }) {
			p.Publish = append(p.Publish, subject)
		}
	}
}

// client returns the permissions to send requests of these forms and receive answers.
func (g Grammar) client(queue string, verbs ...string) (Permissions, error) {
	if queue == every {
		queue = g.every()
	} else if err := g.CheckName(queue); err != nil {
		return Permissions{}, err
	}
	p := Permissions{Subscribe: []string{Inbox}}
	for _, verb := range verbs {
		p.Publish = append(p.Publish, g.prefix+queue+"."+verb)
	}
	return p, nil
}

// Covers reports whether a pattern allows a subject, or all that a narrower pattern
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

// Beyond returns the patterns of p that allow more than needed allows.
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

// UserInfo is the subject on which a server tells a user its permissions.
const UserInfo = "$SYS.REQ.USER.INFO"

// Bridge returns the permissions of the bridge itself. It may publish to all inboxes, since allow_responses admits
// one message a request, which is too few for batches. At the start it discovers other bridges, because two with
// one prefix must not have different stores. It also reads its own permissions, and warns if it has more than
// these.
func (g Grammar) Bridge() Permissions {
	var p Permissions
	for _, of := range g.Each() {
		p.Publish, p.Subscribe = append(p.Publish, of.Events(every)), append(p.Subscribe, of.All())
		if g.tenants {
			p.Publish = append(p.Publish, of.SystemEvent(every))
		}
	}
	p.Publish = append(append(p.Publish, Inbox, accountReplies, UserInfo), discovery...)
	p.Subscribe = append(append(p.Subscribe, Inbox), discovery...)
	return p
}
