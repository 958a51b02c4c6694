package survey

import "context"

// Stats are the numbers of a queue in the data that STATS shows of the endpoint
// info.
type Stats struct {
	Ready   int64   `json:"ready"`
	Leased  int64   `json:"leased"`
	Delayed int64   `json:"delayed"`
	Oldest  float64 `json:"oldest"`
	Waiting int     `json:"waiting"`
}

// Stats reads the first queues, up to a limit. With an error it also returns the queues that it has read. It looks
// for no oldest item: otherwise repeated requests for STATS would make the store look at thousands of priorities
// each time.
func (s *Surveyor) Stats(ctx context.Context, most int) (map[string]Stats, error) {
	names, err := s.firstNames(ctx, most)
	if err != nil {
		return nil, err
	}
	surveys, err := s.readAll(ctx, names, Looks{})
	queues := make(map[string]Stats, len(surveys))
	for name, q := range surveys {
		queues[name] = Stats{Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed, Oldest: q.NextAge(), Waiting: q.waiting}
	}
	return queues, err
}
