package fdbpq

// expire ends an item that outlived its TTL. It stands in no space any more.
func (c *change) expire(p place, e *envelope) error {
	if c.state.config.DeadLetterExpired && !e.isDead() {
		if grave, err := c.grave(); err != nil || grave != nil {
			if err == nil {
				err = c.bury(grave, p, e, DeadExpired)
			}
			return err
		}
	}
	c.note(Event{Type: EventExpired, ID: e.id(p), Priority: p.priority})
	c.drop(p, e)
	return nil
}
