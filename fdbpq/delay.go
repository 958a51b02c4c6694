package fdbpq

// delays makes items ready whose delay is over.
type delays struct{ *queueTx }

// due makes an item ready when its delay is over.
func (d delays) due(t timer) error {
	row, err := d.tx.Get(d.key(spaceDelayed, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceDelayed, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	now, err := d.now()
	if err != nil {
		return err
	}
	d.txSize += itemTxSize(d.name, &l.envelope, false)
	if l.expires != 0 && l.expires <= now {
		return expiries{d.queueTx}.expire(l)
	}
	ready := *l
	d.change(l, ready.from(0))
	return nil
}
