package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Configure changes the fields of the queue's configuration that the JSON
// object names, and makes the queue if need be.
func (q Queue) Configure(tx kv.Tx, object []byte) (Config, error) {
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orNew()
	}
	if err != nil {
		return Config{}, err
	}
	s := qtx.state
	changed := *s
	if changed.config, err = s.config.Merge(object); err != nil {
		return Config{}, err
	}
	for _, part := range configParts {
		if part.prepare == nil {
			continue
		}
		if err := part.prepare(qtx, &changed); err != nil {
			return Config{}, err
		}
	}
	if qtx.missing {
		if err := qtx.create(&changed); err != nil {
			return Config{}, err
		}
		return changed.config, deadLetters{qtx}.create()
	}
	if err := qtx.writeState(&changed); err != nil {
		return Config{}, err
	}
	for _, part := range configParts {
		if part.changed == nil {
			continue
		}
		if err := part.changed(qtx, &s.config); err != nil {
			return Config{}, err
		}
	}
	return changed.config, qtx.done()
}

// configParts are what features do when a queue gets another configuration.
var configParts = [...]struct {
	// prepare refuses the configuration of the next state, or changes the rest of that.
	prepare func(qtx *queueTx, next *queueState) error

	// changed has pops look again at what the configuration may let go. A queue that is made
	// has nothing to look at.
	changed func(qtx *queueTx, before *Config) error
}{
	{prepare: prepareBackoff},
	{prepare: prepareMaxBytes},
	{prepare: prepareDeadLetters},
	{prepare: prepareKeyRate, changed: rateChanged},
	{changed: keysChanged},
	{prepare: prepareFair, changed: fairChanged},
}

// administer begins an operation on the queue itself, which need not exist. It finds written
// what others have changed together: the rows belong to the state that the queue has now.
func (q Queue) administer(tx kv.Tx) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err == nil {
		err = qtx.flush()
	}
	return qtx, err
}

// administerIt is administer of a queue that has to exist.
func (q Queue) administerIt(tx kv.Tx) (*queueTx, error) {
	qtx, err := q.administer(tx)
	if err == nil && !qtx.there() {
		err = ErrNoQueue
	}
	return qtx, err
}

// Pause makes pops and peeks find nothing until Resume. Pushes still work. Pause,
// Resume, Purge and Delete return ErrNoQueue when there is no such queue.
func (q Queue) Pause(tx kv.Tx) error { return q.setPaused(tx, true) }

// Resume ends a pause.
func (q Queue) Resume(tx kv.Tx) error { return q.setPaused(tx, false) }

func (q Queue) setPaused(tx kv.Tx, paused bool) error {
	qtx, err := q.administerIt(tx)
	if err != nil {
		return err
	}
	changed := *qtx.state
	changed.paused = paused
	if !paused {
		tx.Add(queueRow(spaceArrivals, q.name), 1) // wakes waiting pops
	}
	return qtx.writeState(&changed)
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
	pops, err := outlivingPops(tx, q.name)
	if err != nil {
		return 0, err
	}
	n, err := q.supersede(tx, func(s *queueState) {
		*s = queueState{generation: s.generation, config: defaultConfig()}
	})
	if err != nil {
		return 0, err
	}
	for _, kind := range rowKinds {
		if kind.lasts == untilDelete {
			tx.ClearRange(allRows(kind.space, q.name))
		}
	}
	for counter := counterRemembered; counter < counters; counter++ { // the others belong to generations
		tx.Clear(counterKey(q.name, 0, counter))
	}
	pops.keep(tx, q.name)
	return n, nil
}

func (q Queue) supersede(tx kv.Tx, alter func(*queueState)) (int64, error) {
	qtx, err := q.administerIt(tx)
	if err != nil {
		return 0, err
	}
	s := qtx.state
	n, err := countsOf(q.name, tx.Snapshot(), s.generation)
	if err != nil {
		return 0, err
	}
	next := *s
	next.generation++
	alter(&next)
	tx.Set(tuple.AppendInt(queueRow(spaceGarbage, q.name), s.generation), nil)
	qtx.issued = issued{}
	return n.Length(), qtx.writeState(&next)
}
