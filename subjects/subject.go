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
	ID          string // for Get, Remove, Move, Requeue and Revoke
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

// readVerb reads the verb of a queue and its arguments. form is what subjects with the first token of the verb look
// like, "" if no verb begins with it. err is what is wrong with an argument.
func (s *Subject) readVerb(t *tokens) (form string, err error) {
	switch verb := t.next(); verb {
	case "push":
		s.Verb, form = Push, "push or push.<priority>"
		if t.left {
			s.HasPriority = true
			s.Priority, err = ParsePriority(t.next())
		}
	case "import":
		s.Verb, form = Import, "import alone"
	case "pop":
		s.Verb, form = minMax(t.next(), PopMin, PopMax), "pop.min or pop.max"
	case "peek":
		s.Verb, form = minMax(t.next(), PeekMin, PeekMax), "peek.min or peek.max"
	case "ack":
		s.Verb, form = Ack, "ack.<connection>.<token>"
		s.Conn, s.Token = t.next(), t.next()
		if err = checkToken("connection", s.Conn); err == nil {
			err = checkToken("token", s.Token)
		}
	case "info":
		s.Verb, form = Info, "info alone"
	case "list":
		s.Verb, form = List, "list alone"
	case "get":
		s.Verb, form = Get, "get.<id>"
		s.ID, err = t.id()
	case "remove":
		s.Verb, form = Remove, "remove.<id>"
		s.ID, err = t.id()
	case "move":
		s.Verb, form = Move, "move.<id>.<priority>"
		s.HasPriority = true
		s.ID, err = t.id()
		if priority := t.next(); err == nil {
			s.Priority, err = ParsePriority(priority)
		}
	case "requeue":
		s.Verb, form = Requeue, "requeue.<id>"
		s.ID, err = t.id()
	case "revoke":
		s.Verb, form = Revoke, "revoke.<id>"
		s.ID, err = t.id()
	case "keys":
		s.Verb, form = Keys, "keys alone"
	case "key":
		s.Verb, form = Key, "key.<key>"
		s.Key, err = unescapeKey(t.next())
	case "schedules":
		s.Verb, form = Schedules, "schedules alone"
	case "schedule":
		s.Verb, form = Schedule, "schedule.<name>"
		s.Schedule, err = t.name("schedule")
	case "sources":
		s.Verb, form = Sources, "sources alone"
	case "links":
		s.Verb, form = Links, "links alone"
	case "link":
		s.Verb, form = Link, "link.<name>"
		s.Link, err = t.name("link")
	case "admin":
		return s.readAdmin(t)
	case "event":
		s.Verb, form = Event, "event.<type>"
		s.Event = t.next()
		err = checkToken("event type", s.Event)
	default:
		err = fmt.Errorf("verb %s: expected one of %s", quote(verb), queueVerbs)
	}
	return form, err
}

// readAdmin reads an administrative verb as readVerb does.
func (s *Subject) readAdmin(t *tokens) (form string, err error) {
	switch s.Verb = admin(t.next()); s.Verb {
	case AdminKey:
		s.Key, err = unescapeKey(t.next())
	case AdminSchedule:
		s.Schedule, err = t.name("schedule")
		if t.left {
			s.Verb = adminSchedule(t.next())
		}
		return "admin.schedule.<name>, alone or with pause, resume, delete or run", err
	case AdminSource:
		s.Source, err = t.name("source")
		if t.left {
			s.Verb = adminSource(t.next())
		}
		return "admin.source.<name>, alone or with pause, resume or delete", err
	case AdminLink:
		s.Link, err = t.name("link")
		if t.left {
			s.Verb = adminLink(t.next())
		}
		return "admin.link.<name>, alone or with pause, resume or delete", err
	}
	return "admin.config, admin.purge, admin.pause, admin.resume, admin.delete, admin.remove, admin.move, admin.revoke, admin.requeue, " +
		"admin.key.<key>, admin.schedule.<name>, admin.source.<name> or admin.link.<name>", err
}

func parseSys(subject string, t tokens, tenant string) (Subject, error) {
	s := Subject{Tenant: tenant}
	switch t.next() {
	case "list":
		s.Verb = SysList
	case "info":
		s.Verb = SysInfo
	case "cluster":
		if tenant != "" {
			return Subject{}, fmt.Errorf("subject %s: the nodes are those of all tenants, expected list or info alone after %s", quote(subject), sysToken)
		}
		s.Verb = sysCluster(t.next())
	}
	if s.Verb == 0 || t.left {
		return Subject{}, fmt.Errorf("subject %s: expected list, info, cluster.status, cluster.step-down or cluster.replace alone after %s", quote(subject), sysToken)
	}
	return s, nil
}

func sysCluster(what string) Verb {
	switch what {
	case "status":
		return SysClusterStatus
	case "step-down":
		return SysClusterStepDown
	case "replace":
		return SysClusterReplace
	}
	return 0
}

func minMax(end string, first, last Verb) Verb {
	switch end {
	case "min":
		return first
	case "max":
		return last
	}
	return 0
}

func admin(what string) Verb {
	switch what {
	case "config":
		return AdminConfig
	case "purge":
		return AdminPurge
	case "pause":
		return AdminPause
	case "resume":
		return AdminResume
	case "delete":
		return AdminDelete
	case "remove":
		return AdminRemove
	case "move":
		return AdminMove
	case "revoke":
		return AdminRevoke
	case "requeue":
		return AdminRequeue
	case "key":
		return AdminKey
	case "schedule":
		return AdminSchedule
	case "source":
		return AdminSource
	case "link":
		return AdminLink
	}
	return 0
}

func adminSchedule(what string) Verb {
	switch what {
	case "pause":
		return AdminSchedulePause
	case "resume":
		return AdminScheduleResume
	case "delete":
		return AdminScheduleDelete
	case "run":
		return AdminScheduleRun
	}
	return 0
}

func adminSource(what string) Verb {
	switch what {
	case "pause":
		return AdminSourcePause
	case "resume":
		return AdminSourceResume
	case "delete":
		return AdminSourceDelete
	}
	return 0
}

func adminLink(what string) Verb {
	switch what {
	case "pause":
		return AdminLinkPause
	case "resume":
		return AdminLinkResume
	case "delete":
		return AdminLinkDelete
	}
	return 0
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

// id returns the next token, which has to be the id of an item.
func (t *tokens) id() (string, error) {
	id := t.next()
	return id, checkID(id)
}

// name returns the next token, which has to be the name of a schedule, a source or a link.
func (t *tokens) name(of string) (string, error) {
	name := t.next()
	return name, checkName(of, name)
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
	if s.Verb == Schedule || s.Verb >= AdminSchedule && s.Verb < AdminSource {
		if err := checkName("schedule", s.Schedule); err != nil {
			return "", err
		}
	}
	if s.Verb >= AdminSource && s.Verb < AdminLink {
		if err := checkName("source", s.Source); err != nil {
			return "", err
		}
	}
	if s.Verb == Link || s.Verb >= AdminLink && s.Verb < Event {
		if err := checkName("link", s.Link); err != nil {
			return "", err
		}
	}
	name := s.Verb.String()
	switch last := strings.LastIndexByte(name, '.'); {
	case s.Verb > AdminLink && s.Verb < Event:
		b = append(append(append(b, name[:last+1]...), s.Link...), name[last:]...)
	case s.Verb > AdminSource && s.Verb < AdminLink:
		b = append(append(append(b, name[:last+1]...), s.Source...), name[last:]...)
	case s.Verb > AdminSchedule && s.Verb < AdminSource:
		b = append(append(append(b, name[:last+1]...), s.Schedule...), name[last:]...)
	default:
		b = append(b, name...)
	}
	switch s.Verb {
	case AdminSource:
		b = append(append(b, '.'), s.Source...)
	case Link, AdminLink:
		b = append(append(b, '.'), s.Link...)
	case Schedule, AdminSchedule:
		b = append(append(b, '.'), s.Schedule...)
	case Ack:
		b = append(append(b, '.'), s.Conn...)
		b = append(append(b, '.'), s.Token...)
	case Get, Remove, Move, Requeue, Revoke:
		b = append(append(b, '.'), s.ID...)
	case Key, AdminKey:
		b = appendKey(append(b, '.'), s.Key)
	case Event:
		b = append(append(b, '.'), s.Event...)
	}
	if s.Verb == Move || s.HasPriority {
		b = strconv.AppendInt(append(b, '.'), s.Priority, 10)
	}
	subject := string(b)
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
