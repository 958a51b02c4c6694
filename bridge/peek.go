package bridge

// A peek that does not wait is a query.

func (p *pop) find(v *view) error {
	p.forget()
	seen, err := v.queue.Peek(v.reader, p.ask.Selection(&v.Limit, v.queue.Name()))
	if err != nil {
		return err
	}
	p.seen(&v.Limit, v.queue.Name(), &seen)
	return nil
}

// size returns the size of the items that were found.
func (p *pop) size() (n int64) {
	for i := range p.found {
		n += p.found[i].Size
	}
	return n
}

func (p *pop) answer(l *lane) { l.answerPop(p) }
