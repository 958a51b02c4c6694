package receiver

// Pending returns how many messages have arrived and were not handled yet.
func Pending(r *Receiver) int {
	messages, _ := r.arrivals.pending()
	return messages
}
