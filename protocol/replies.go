package protocol

// Replies reports whether the queue has the results for one program of Celery's rpc://: its name is a UUID, and its items do not
// stay for ever. Nobody asks for what a killed program leaves there, until it expires, and nobody has to.
func (i *Info) Replies() bool { return i.Config.TTL > 0 && isUUID(i.Queue) }

// isUUID reports whether a text is a UUID as Python writes it.
func isUUID(text string) bool {
	const form = "00000000-0000-0000-0000-000000000000"
	if len(text) != len(form) {
		return false
	}
	for i := range form {
		c := text[i]
		if (form[i] == '-') != (c == '-') || c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Stands reports whether something keeps items or pushes that somebody may have to end: see [Cause.Wrong].
func (i *Info) Stands() bool {
	return i.Explain.Cause.Wrong() && (i.Explain.Cause != CauseNoWorkers || !i.Replies())
}
