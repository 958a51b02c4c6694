package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// Owners make one bridge pop a queue that several bridges pop.
//
// All pops take the items at one end of the queue. If transactions of two bridges run at the same time, one commits
// and the other fails by a conflict. So after a conflict all bridges pass the pops and settlements of the queue on
// to its owner, which serves them and answers their clients. Each bridge announces itself twice a second, and the
// queues are spread evenly over the bridges that are there.
//
// Correctness does not depend on owners. If bridges disagree about an owner, both pop, and conflicts decide. A
// bridge never itself serves a request that it has sent to an owner: it repeats the message until the owner reports
// that it has taken the requests, which it does once. If the owner stays silent, the clients hear that the result
// is unknown.
type Owners struct {
	nc      *nats.Conn
	id      string
	words   string // subject of words; the queue follows it
	sealer  sealer
	now     func() time.Duration
	log     *slog.Logger
	passing passing

	mu       sync.Mutex
	contests map[string]*contest // by queue
	members  members
	heard    memory
	subs     []*nats.Subscription
	inbox    *nats.Subscription // to requests of other bridges; nil: it takes none
	awaited  map[string]bool    // while this bridge leaves: bridges that may have requests under way to it
	cleared  chan struct{}      // gets a value when one of them has reported that it has none

	saying sync.Mutex    // words leave in the order of their times
	said   time.Duration // time of the last word

	ends  context.CancelFunc
	ended chan struct{}
}

// contest is a queue that several bridges have tried to pop at the same time.
type contest struct {
	until time.Duration // the contest is over then, unless somebody pops
	said  time.Duration // when this bridge told the others
}

const (
	// contestTime is how long a queue has an owner after the last pop. After that, it takes a conflict or two to
	// find out again that bridges contest it.
	contestTime = 10 * time.Second

	// contestAgain is how long a bridge that loses conflicts waits until it tells the others again: further bridges
	// may have come since.
	contestAgain = time.Second

	// maxContests bounds the queues with owners.
	maxContests = 4096
)

// wordsOfAll takes the place of a queue in the subject of words that concern all queues.
// No queue has this name.
const wordsOfAll = "_sys"

// NewOwners returns the owners of the queues in a store. It does not listen yet, and this
// bridge owns all queues.
func NewOwners(nc *nats.Conn, self Identity, store Store, log *slog.Logger, handlers Handlers) *Owners {
	o := &Owners{
		nc: nc, id: self.ID, words: self.between() + ".word.", sealer: newSealer(store.Secret), now: store.Time, log: log,
		contests: make(map[string]*contest),
		members:  members{heard: make(map[string]time.Duration)},
		heard:    memory{last: make(map[string]time.Duration)},
		cleared:  make(chan struct{}, 1),
	}
	o.passing.init(nc, self, store, o.sealer, log, handlers, func(id string) { o.say(id, wordClear) })
	return o
}

// Handlers handle requests. They must not block, and are called side by side.
type Handlers struct {
	// Serve serves a request that has come from another bridge, or that no other bridge got.
	Serve func(*nats.Msg)

	// Unknown answers a request that another bridge may have served.
	Unknown func(*nats.Msg)
}

// Inbox returns the prefix of the subjects for messages between the bridges on a store.
// It is an inbox, because bridges have the permissions for inboxes.
func Inbox(storeID string) string { return nats.InboxPrefix + storeID }

// between is the prefix of the subjects between this bridge and those that serve the same subjects on the same
// store. Other bridges could not read the requests.
func (i Identity) between() string {
	if i.Site != "" {
		return Inbox(i.StoreID) + "." + i.Site + "." + i.Prefix
	}
	return Inbox(i.StoreID) + "." + i.Prefix
}

// Start listens to other bridges, and announces this one until Leave.
func (o *Owners) Start() error {
	if err := o.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	o.ends, o.ended = cancel, make(chan struct{})
	go func() {
		defer close(o.ended)
		again := time.NewTicker(announceEvery)
		defer again.Stop()
		for {
			o.Announce()
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// Listen does the same without announcing this bridge, so no requests come.
func (o *Owners) Listen() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, of := range []struct {
		subject string
		handle  nats.MsgHandler
	}{
		{o.passing.inbox(o.id), o.passing.take},
		{o.words + ">", o.hear}, // the name of a tenant's queue has two tokens
		{o.passing.answersTo(o.id) + "*", o.answered},
	} {
		sub, err := o.nc.Subscribe(of.subject, of.handle)
		if err != nil {
			return err
		}
		o.subs = append(o.subs, sub)
	}
	o.inbox = o.subs[0]
	return nil
}

// Announce announces this bridge to the others.
func (o *Owners) Announce() {
	o.tend()
	o.say(wordsOfAll, wordHere)
}

// tend looks after the requests that were passed on. Requests that wait for a silent bridge are served here.
func (o *Owners) tend() {
	o.passing.tend()
	o.mu.Lock()
	o.members.dropSilent(o.now())
	silent := slices.DeleteFunc(o.passing.targets(), o.members.has)
	o.mu.Unlock()
	for _, id := range silent {
		o.passing.takeBack(id)
	}
}

// Lost notes that a transaction that popped a queue lost a conflict with another bridge.
func (o *Owners) Lost(queue string) {
	now := o.now()
	o.mu.Lock()
	c := o.contest(queue, now)
	tell := c != nil && (c.said == 0 || now-c.said > contestAgain)
	if tell {
		c.said = now
	}
	o.mu.Unlock()
	if tell {
		o.say(queue, wordContest)
	}
}

// contest begins a contest, or prolongs it. o.mu is held.
func (o *Owners) contest(queue string, now time.Duration) *contest {
	c := o.contests[queue]
	if c == nil {
		for name, over := range o.contests {
			if now > over.until {
				delete(o.contests, name)
			}
		}
		if len(o.contests) >= maxContests {
			return nil
		}
		c = &contest{}
		o.contests[queue] = c
	}
	c.until = now + contestTime
	return c
}

// Pass passes a request on to the owner of its queue. It returns false when this
// bridge is to serve the request.
func (o *Owners) Pass(queue string, m *nats.Msg) bool {
	o.mu.Lock()
	defer o.mu.Unlock() // no request is added for a bridge that is known to leave
	owner, own := o.owner(queue)
	return owner != "" && !own && o.passing.add(owner, m)
}

// Pops reports whether this bridge pops a queue for all bridges.
func (o *Owners) Pops(queue string) bool {
	_, own := o.Owner(queue)
	return own
}

// Owner returns the bridge that pops a queue for all, and whether it is this one. The id is
// empty while bridges do not contest the queue.
func (o *Owners) Owner(queue string) (id string, own bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owner(queue)
}

func (o *Owners) owner(queue string) (id string, own bool) {
	c := o.contests[queue]
	if c == nil {
		return "", false
	}
	now := o.now()
	if now > c.until {
		delete(o.contests, queue)
		return "", false
	}
	c.until = now + contestTime
	id = o.members.owner(queue, o.id, now)
	return id, id == o.id
}

// hear handles a word of a bridge. This bridge's own words change nothing.
func (o *Owners) hear(m *nats.Msg) {
	queue := strings.TrimPrefix(m.Subject, o.words)
	w, ok := o.sealer.open(queue, m.Data)
	if !ok {
		return
	}
	if o.heed(queue, w) && w.kind == wordGone && o.passing.left(w.id) {
		o.say(w.id, wordClear)
	}
}

// heed acts on a word. It returns false if the word is a copy.
func (o *Owners) heed(queue string, w word) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if !o.heard.hears(w.id, w.at, now) {
		return false
	}
	switch w.kind {
	case wordHere:
		o.members.add(w.id, now)
	case wordGone:
		o.members.remove(w.id)
	case wordContest:
		o.contest(queue, now)
	case wordClear:
		if queue == o.id {
			delete(o.awaited, w.id)
			signal(o.cleared)
		}
	}
	return true
}

// signal puts a value into a channel that has room for one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// answered handles the answer of a bridge. An answer of the server says that the bridge has gone, or is forged: it
// only decides where the next requests go, and nothing about requests that were sent.
func (o *Owners) answered(m *nats.Msg) {
	if protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data) {
		id := strings.TrimPrefix(m.Subject, o.passing.answersTo(o.id))
		o.mu.Lock()
		o.members.remove(id)
		o.mu.Unlock()
		o.passing.takeBack(id)
	} else if w, ok := o.sealer.open(answerTo(o.id), m.Data); ok && w.kind == wordTaken {
		o.passing.confirmed(w.id, w.at)
	}
}

// Stop ends listening.
func (o *Owners) Stop() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, sub := range o.subs {
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) && !errors.Is(err, nats.ErrConnectionClosed) {
			o.log.Warn("unsubscribing failed", "subject", sub.Subject, "error", err)
		}
	}
	o.subs = nil
}

// Counts returns how many requests this bridge has passed on, and how many it has taken.
func (o *Owners) Counts() (passed, taken int64) {
	return o.passing.passed.Load(), o.passing.taken.Load()
}

func (o *Owners) say(queue string, kind byte) {
	o.saying.Lock()
	defer o.saying.Unlock()
	o.said = max(o.said+1, o.now())
	if err := o.nc.Publish(o.words+queue, o.sealer.seal(queue, word{kind: kind, at: o.said, id: o.id})); err != nil {
		o.log.Debug("telling other bridges failed", "error", err)
	}
}

// Leave tells the other bridges that this one takes no more of their requests, and returns when the requests that
// were on their way are being served. The others report when they have none under way. This bridge cannot
// unsubscribe earlier: requests without a receiver would be lost, since the server's word about them can be forged.
func (o *Owners) Leave(ctx context.Context) error {
	if o.ends != nil {
		o.ends()
		<-o.ended
		o.ends = nil
	}
	o.mu.Lock()
	sub := o.inbox
	o.inbox = nil
	o.awaited = make(map[string]bool)
	for id := range o.members.heard {
		o.awaited[id] = true
	}
	o.mu.Unlock()
	if sub == nil {
		return nil
	}
	o.awaitOthers(ctx)
	if o.nc.IsReconnecting() { // a drain would wait for the server, which sends nothing
		if err := sub.Unsubscribe(); err != nil {
			return fmt.Errorf("unsubscribe from %s: %w", sub.Subject, err)
		}
		return nil
	}
	// The server sends no more when it has heard of the end.
	closed := sub.StatusChanged(nats.SubscriptionClosed)
	if err := sub.Drain(); err != nil {
		return fmt.Errorf("drain %s: %w", sub.Subject, err)
	}
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain %s: %w", sub.Subject, ctx.Err())
	}
}

// awaitOthers announces that this bridge leaves, until the others have reported that they have nothing under way to
// it, or are silent.
func (o *Owners) awaitOthers(ctx context.Context) {
	late, again := time.NewTimer(takenPatience), time.NewTicker(announceEvery)
	defer late.Stop()
	defer again.Stop()
	o.say(wordsOfAll, wordGone)
	for o.awaits() && !o.nc.IsClosed() {
		select {
		case <-o.cleared:
		case <-again.C:
			o.tend()
			o.say(wordsOfAll, wordGone)
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// awaits reports whether another bridge may have requests under way to this one.
func (o *Owners) awaits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.members.dropSilent(o.now())
	for id := range o.awaited {
		if o.members.has(id) {
			return true
		}
	}
	return false
}

// Settle returns when other bridges have taken all requests that this one has passed on, or it is unknown whether
// they have.
func (o *Owners) Settle(ctx context.Context) error {
	again := time.NewTicker(announceEvery)
	defer again.Stop()
	for !o.passing.settled() {
		select {
		case <-o.passing.empty:
		case <-again.C:
			o.tend()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
