package health

import (
	"errors"
	"testing"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	away, damaged := errors.New("NATS is away"), errors.New("the store is damaged")
	var bridge error
	var h Health
	for _, step := range []struct {
		name        string
		do          func()
		live, ready error
	}{
		{"starting", func() {}, nil, errStarting},
		{"serving", func() { h.Serving(func() error { return bridge }) }, nil, nil},
		{"without NATS", func() { bridge = away }, away, away},
		{"serving again", func() { bridge = nil }, nil, nil},
		{"a damaged store", func() { h.Stored(func() error { return damaged }) }, nil, nil},
		{"a damaged copy", func() { h.Copies(func() error { return damaged }) }, nil, damaged},
		{"damaged and without NATS", func() { bridge = away }, away, away},
		{"stopping", h.Stop, errStopping, errStopping},
	} {
		step.do()
		if live := h.Live(); live != step.live {
			t.Errorf("%s: live says %v, expected %v", step.name, live, step.live)
		}
		if ready := h.Ready(); ready != step.ready {
			t.Errorf("%s: ready says %v, expected %v", step.name, ready, step.ready)
		}
	}
	if page := h.ReadyPage()["damage"]; page != damaged.Error() {
		t.Errorf("/readyz says %q of the damage", page)
	}
	if page, told := h.Page()["damage"]; told {
		t.Errorf("/healthz says %q of the damage, which takes time to describe", page)
	}
}
