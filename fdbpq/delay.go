package fdbpq

// delayDue makes an item ready when its delay is over.
func (qtx *queueTx) delayDue(t timer) error {
	row, err := qtx.tx.Get(qtx.key(spaceDelayed, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceDelayed, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	now, err := qtx.now()
	if err != nil {
		return err
	}
	qtx.txSize += qtx.itemTxSize(&l.envelope, false)
	if l.expires != 0 && l.expires <= now {
		return qtx.expire(l)
	}
	ready := *l
	qtx.change(l, ready.from(0))
	return nil
}
