package fdbpq

// delayDue makes an item ready when its delay is over.
func (ti times) delayDue(t timer) error {
	row, err := ti.tx.Get(ti.key(spaceDelayed, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceDelayed, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	now, err := ti.now()
	if err != nil {
		return err
	}
	ti.txSize += ti.itemTxSize(&l.envelope, false)
	if l.expires != 0 && l.expires <= now {
		return ti.expire(l)
	}
	ready := *l
	ti.change(l, ready.from(0))
	return nil
}
