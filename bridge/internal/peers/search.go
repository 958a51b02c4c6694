package peers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/protocol"
)

// search is one search for rivals, in two rounds: hints, and proofs.
type search struct {
	rivals *Rivals
	inbox  string // which nobody can guess; questions of the second round are answered below it
	came   chan *nats.Msg
	subs   []*nats.Subscription
	nonce  string
	server Server // of this bridge
	hints  []hint
	far    int // hints to bridges elsewhere
	found  []Identity
	alone  bool
}

// searchRoom is how many answers may lie unread; more are dropped.
const searchRoom = 1024

func (s *search) run(ctx context.Context) error {
	if err := s.ask(ctx); err != nil || len(s.hints) == 0 {
		return err
	}
	return s.challenge(ctx)
}

// ask asks all bridges for their identities.
func (s *search) ask(ctx context.Context) error {
	question, err := micro.ControlSubject(micro.InfoVerb, ServiceName, "")
	if err != nil {
		return err
	}
	if err := s.listen(s.inbox); err != nil {
		return err
	}
	if err := s.rivals.nc.PublishRequest(question, s.inbox, nil); err != nil {
		return err
	}
	end := time.Now().Add(longestRound)
	for patience := firstAnswer; len(s.hints)-min(s.far, maxHints) < maxHints; patience = min(nextAnswer, time.Until(end)) {
		m, err := s.next(ctx, patience)
		if m == nil {
			return err
		}
		// The server reports that at once or not at all. Behind an answer, which shows the inbox to anybody who
		// listens to inboxes, such a report is forged.
		if unheard(m) && patience == firstAnswer {
			s.alone = true
			return nil
		}
		s.read(m)
	}
	return nil
}

// read notes a hint.
func (s *search) read(m *nats.Msg) {
	var info micro.Info
	if json.Unmarshal(m.Data, &info) != nil {
		return // not a bridge
	}
	for _, o := range identitiesOf(info.ServiceIdentity) {
		known := slices.ContainsFunc(s.hints, func(h hint) bool { return h.Identity == o })
		if known || !o.provable() || !s.rivals.self.rivals(o) {
			continue
		}
		far := !o.Server.beside(s.server)
		if far {
			s.far++
		}
		if !far || s.far <= maxHints { // many bridges at other sites leave room for bridges here
			s.hints = append(s.hints, hint{Identity: o, far: far})
		}
	}
}

// challenge asks the rivals for a proof.
func (s *search) challenge(ctx context.Context) error {
	r := s.rivals
	body, err := json.Marshal(challenge{Prefix: r.self.Prefix, Nonce: s.nonce})
	if err != nil {
		return err
	}
	if err := s.listen(s.inbox + ".*"); err != nil {
		return err
	}
	for _, h := range s.hints {
		if err := s.listen(proofSubject(r.self.Prefix, h.Prefix)); err != nil {
			return err
		}
	}
	for i := range s.hints {
		s.hints[i].answers = s.inbox + "." + rand.Text() // the inbox is known by now
	}
	end := time.Now().Add(firstAnswer)
	for pause := nextAnswer; open(s.hints) && time.Now().Before(end); pause *= 2 {
		if err := s.question(body); err != nil {
			return err
		}
		if err := s.hear(ctx, min(pause, time.Until(end))); err != nil {
			return err
		}
	}
	return nil
}

// question sends the challenge to all that have not answered it. Behind a gateway the first challenge can arrive
// before the news that this bridge listens for a proof, since they use different connections.
func (s *search) question(body []byte) error {
	prefix := s.rivals.self.Prefix
	for _, h := range s.hints {
		if !h.open() {
			continue
		}
		question, err := micro.ControlSubject(micro.InfoVerb, ServiceName, h.ID)
		if err != nil {
			return err
		}
		if proofSubject(prefix, h.Prefix) == "" {
			// This bridge may not subscribe where the other may publish. But the other bridge receives the requests
			// of this one, and answers messages that it does not know.
			question = prefix + sysEvent
		}
		if err := s.rivals.nc.PublishRequest(question, h.answers, body); err != nil {
			return err
		}
	}
	return nil
}

// hear reads answers and proofs until all have come, or the time is over.
func (s *search) hear(ctx context.Context, patience time.Duration) error {
	end := time.Now().Add(patience)
	for open(s.hints) {
		m, err := s.next(ctx, time.Until(end))
		if m == nil {
			return err
		}
		if strings.HasPrefix(m.Subject, s.inbox+".") {
			s.answered(m)
		} else if o, ok := s.rivals.proven(m, s.nonce); ok {
			s.add(o)
		}
	}
	return nil
}

// answered records the answer to a challenge. It counts as a proof only if no event can be one.
func (s *search) answered(m *nats.Msg) {
	i := slices.IndexFunc(s.hints, func(h hint) bool { return h.answers == m.Subject })
	if i < 0 {
		return
	}
	h := &s.hints[i]
	switch {
	case unheard(m):
		h.gone = true
	case proofSubject(s.rivals.self.Prefix, h.Prefix) == "":
		s.add(h.Identity)
	}
}

// add adds a rival that has proven itself.
func (s *search) add(o Identity) {
	if slices.Contains(s.found, o) {
		return // it was asked more than once
	}
	for i := range s.hints {
		if s.hints[i].ID == o.ID && s.hints[i].Prefix == o.Prefix {
			s.hints[i].proven = true
		}
	}
	s.found = append(s.found, o)
}

// listen subscribes to a subject, once.
func (s *search) listen(subject string) error {
	if subject == "" || slices.ContainsFunc(s.subs, func(sub *nats.Subscription) bool { return sub.Subject == subject }) {
		return nil
	}
	sub, err := s.rivals.nc.ChanSubscribe(subject, s.came)
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

// next returns the next message, or nil when the time is over.
func (s *search) next(ctx context.Context, patience time.Duration) (*nats.Msg, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case m := <-s.came:
		return m, nil
	case <-late.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *search) end() {
	for _, sub := range s.subs {
		if err := sub.Unsubscribe(); err != nil {
			s.rivals.log.Debug("unsubscribing failed", "subject", sub.Subject, "error", err)
		}
	}
}

// unheard reports whether the server answers that the question had no receiver.
func unheard(m *nats.Msg) bool {
	return protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data)
}
