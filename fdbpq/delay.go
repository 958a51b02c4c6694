package fdbpq

import "github.com/pqbridge/pqbridge/fdbpq/internal/layout"

// delays makes items ready whose delay is over.
type delays struct{ *queueTx }

// due makes an item ready when its delay is over.
func (d delays) due(t layout.Timer) error {
	row, err := d.tx.Get(d.key(layout.SpaceDelayed, t.Place))
	if err != nil || row == nil {
		return err
	}
	l, err := layout.ParseItem(layout.SpaceDelayed, row, t.Place)
	if err != nil || l.Due != t.Due {
		return err
	}
	now, err := d.now()
	if err != nil {
		return err
	}
	d.txSize += itemTxSize(d.name, &l.Envelope, false)
	if l.Expires != 0 && l.Expires <= now {
		return expiries{d.queueTx}.expire(l)
	}
	ready := *l
	d.change(l, ready.From(0))
	return nil
}
