package fdbpq

import "context"

// ErrContended makes a staged pop start again.
var ErrContended = errContended

// StagedRequest is a staged pop whose steps a test runs one by one.
type StagedRequest struct{ staged }

func NewStagedRequest(s *Store, queue string, sel Selection) *StagedRequest {
	if err := sel.check(); err != nil {
		panic(err)
	}
	return &StagedRequest{staged{Queue: s.Queue(queue), session: s.Session(), sel: sel}}
}

func (r *StagedRequest) Register(ctx context.Context) error {
	_, watch, err := r.register(ctx)
	if err == nil {
		watch.Cancel()
	}
	return err
}

func (r *StagedRequest) Fetch(ctx context.Context) (Popped, bool, error) {
	popped, answered, _, watch, err := r.fetch(ctx)
	if watch != nil {
		watch.Cancel()
	}
	return popped, answered, err
}
