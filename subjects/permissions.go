package subjects

// Permissions are the patterns that a server lets a user publish and subscribe
// to, in the sense of permissions.publish.allow and permissions.subscribe.allow
// of its configuration. A user who does several things needs the union.
type Permissions struct {
	Publish, Subscribe []string
}

// Inbox is where clients get their replies unless they are told otherwise. A
// user with an inbox prefix of its own (which keeps others from reading its
// replies) subscribes to that instead, and the bridge has to publish there too.
const Inbox = "_INBOX.>"

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

// Importer returns what it takes to put items where they stood in a queue.
// Whoever may do that is trusted with ids.
func (g Grammar) Importer(queue string) (Permissions, error) {
	return g.client(queue, "import")
}

// Consumer returns what it takes to look at, pop, lease and settle items. The
// dead-letter queue is another queue.
func (g Grammar) Consumer(queue string) (Permissions, error) {
	return g.client(queue, "pop.*", "peek.*", "ack.*.*")
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

// Bridge returns what the bridge itself needs. It answers into inboxes by
// name rather than by allow_responses, which admits one message a request and
// would cut batches short. It asks for other bridges as it starts, because two
// with one prefix must not have different stores.
func (g Grammar) Bridge() Permissions {
	return Permissions{
		Publish:   append([]string{g.Events(every), Inbox}, discovery...),
		Subscribe: append([]string{g.All(), Inbox}, discovery...),
	}
}
