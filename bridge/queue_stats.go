package bridge

import "context"

// queueStats are the numbers of a queue in the data that STATS shows of the endpoint
// info.
type queueStats struct {
	Ready   int64   `json:"ready"`
	Leased  int64   `json:"leased"`
	Delayed int64   `json:"delayed"`
	Oldest  float64 `json:"oldest"`
	Waiting int     `json:"waiting"`
}

// stats reads the first queues, up to a limit. With an error it also returns the queues that
// it has read. It looks for no oldest item: whoever asks for STATS again and again would have
// the store look at thousands of priorities each time.
func (s *surveyor) stats(ctx context.Context, most int) (map[string]queueStats, error) {
	names, err := s.firstNames(ctx, most)
	if err != nil {
		return nil, err
	}
	surveys, err := s.readAll(ctx, names, looks{})
	queues := make(map[string]queueStats, len(surveys))
	for name, q := range surveys {
		queues[name] = queueStats{Ready: q.Ready, Leased: q.Leased, Delayed: q.Delayed, Oldest: ageOfNext(&q.Inspection, q.now), Waiting: q.waiting}
	}
	return queues, err
}
