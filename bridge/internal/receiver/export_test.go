package receiver

import "github.com/nats-io/nats.go"

// Pending returns how many messages have arrived and were not handled yet.
func Pending(r *Receiver) int {
	messages, _ := r.arrivals.pending()
	return messages
}

// ShedLoad sheds load as when too many requests wait.
func ShedLoad(r *Receiver) {
	r.shedding.underWay.Store(true)
	r.shed("shedding load", r.renewRequests)
}

// Requests is the subscription to requests.
func Requests(r *Receiver) *nats.Subscription { return r.fronts[0].requests }

// Signals is the subscription to signals.
func Signals(r *Receiver) *nats.Subscription { return r.fronts[0].signals }

// Refusing are the subscriptions that refuse pushes while load is shed.
func Refusing(r *Receiver) []*nats.Subscription {
	if subs := r.shedding.refusing.Load(); subs != nil {
		return *subs
	}
	return nil
}
