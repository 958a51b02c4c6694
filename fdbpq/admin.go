package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Configure changes the fields of the queue's configuration that the JSON
// object names, and makes the queue if need be.
func (q Queue) Configure(tx kv.Tx, object []byte) (Config, error) {
	s, exists, err := q.stateOrNew(tx)
	if err != nil {
		return Config{}, err
	}
	changed := *s
	if changed.config, err = s.config.Merge(object); err != nil {
		return Config{}, err
	}
	if err := changed.useBackoff(); err != nil {
		return Config{}, err
	}
	if own, most := changed.config.MaxBytes, q.store.maxQueueBytes; most > 0 && own > most && own != s.config.MaxBytes {
		return Config{}, configError("max_bytes is %d: no queue here may have more than %d, as the operator of pqd has set", own, most)
	}
	if name := changed.config.DeadLetter; name != "" && name != s.config.DeadLetter {
		if err := q.checkDeadLetter(tx, name); err != nil {
			return Config{}, err
		}
	}
	if c := &changed.config; c.DeadLetterExpired && c.DeadLetter == "" && q.defaultDeadLetters() == "" {
		return Config{}, configError("dead_letter_expired needs a dead_letter: %s%s would have %d bytes, allowed are %d",
			q.name, DeadLetterSuffix, len(q.name)+len(DeadLetterSuffix), MaxDeadLetterName)
	}
	if s.config.KeyRate != changed.config.KeyRate {
		if changed.keyRateSince, err = q.newQueueTx(tx, s).now(); err != nil {
			return Config{}, err
		}
	}
	if s.config.Fair != changed.config.Fair {
		fair{q.newQueueTx(tx, s)}.leave()
		changed.beginFairOrder()
	}
	if !exists {
		return changed.config, q.createWithDeadLetterQueue(tx, &changed)
	}
	if err := q.writeState(tx, &changed); err != nil {
		return Config{}, err
	}
	qtx := q.newQueueTx(tx, &changed)
	if err := qtx.applyConfig(&s.config); err != nil {
		return Config{}, err
	}
	return changed.config, qtx.finish()
}

// applyConfig has pops look again at what another configuration may let go.
func (qtx *queueTx) applyConfig(before *Config) error {
	c := &qtx.state.config
	if c.Rate != before.Rate {
		qtx.arrived = true
		if err := (rates{qtx}).changeOwn(before.Rate, c.Rate); err != nil {
			return err
		}
	}
	if qtx.state.keyed && (c.KeyLimit != before.KeyLimit || c.KeyOrder != before.KeyOrder || c.KeyRate != before.KeyRate) {
		if err := (keyIndex{qtx}).rebuild(""); err != nil {
			return err
		}
	}
	if c.Fair != before.Fair && c.Fair != "" && !qtx.state.fairBuilt {
		return fair{qtx}.buildLater("")
	}
	return nil
}

// Pause makes pops and peeks find nothing until Resume. Pushes still work. Pause,
// Resume, Purge and Delete return ErrNoQueue when there is no such queue.
func (q Queue) Pause(tx kv.Tx) error { return q.setPaused(tx, true) }

// Resume ends a pause.
func (q Queue) Resume(tx kv.Tx) error { return q.setPaused(tx, false) }

func (q Queue) setPaused(tx kv.Tx, paused bool) error {
	s, err := q.readState(tx)
	if err != nil {
		return err
	}
	if s == nil {
		return ErrNoQueue
	}
	changed := *s
	changed.paused = paused
	if !paused {
		tx.Add(queueRow(spaceArrivals, q.name), 1) // wakes waiting pops
	}
	return q.writeState(tx, &changed)
}

// Purge removes all items, leased and delayed ones included, and returns their
// number. It takes constant time: the queue continues in a new generation of its
// key space, and Maintain clears the old one. Message ids stay remembered.
func (q Queue) Purge(tx kv.Tx) (int64, error) {
	return q.supersede(tx, func(*queueState) {})
}

// Delete removes the queue with its items, its configuration and its remembered
// message ids. A later queue of the same name inherits nothing but that repeated pops
// pop no items of it.
func (q Queue) Delete(tx kv.Tx) (int64, error) {
	n, err := q.supersede(tx, func(s *queueState) {
		*s = queueState{generation: s.generation, config: defaultConfig()}
	})
	if err == nil {
		tx.Clear(queueRow(spaceHigh, q.name))
		q.forgetKeys(tx)
		scheduler{q}.forget(tx)
		err = q.forgetAllIDs(tx)
	}
	return n, err
}

func (q Queue) supersede(tx kv.Tx, alter func(*queueState)) (int64, error) {
	s, err := q.readState(tx)
	if err != nil {
		return 0, err
	}
	if s == nil {
		return 0, ErrNoQueue
	}
	n, err := q.counts(tx.Snapshot(), s.generation)
	if err != nil {
		return 0, err
	}
	next := *s
	next.generation++
	alter(&next)
	tx.Set(tuple.AppendInt(queueRow(spaceGarbage, q.name), s.generation), nil)
	return n.Length(), q.writeState(tx, &next)
}
