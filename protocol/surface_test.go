package protocol_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// entry is a row of a table that other places repeat.
type entry interface {
	word() string   // tells it from others in lists of what is absent
	called() string // its name in a sentence
}

// surface is a place that has something for each row of a table.
type surface[E entry] struct {
	file   string // from the root
	what   string // what it has
	within string // a pattern of the part of the file; "": the whole file
	text   func(E) string
	of     func(E) bool      // the rows that it is about; nil: all
	absent map[string]string // the rows for which it has nothing, by their words, and why
}

func (s *surface[E]) check(t *testing.T, all []E) {
	t.Helper()
	part := read(t, "../"+s.file)
	if s.within != "" {
		if part = regexp.MustCompile(s.within).FindString(part); part == "" {
			t.Errorf("%s: found no part like %s: change the pattern in the test", s.file, s.within)
			return
		}
	}
	for word, why := range s.absent {
		if why == "" || !slices.ContainsFunc(all, func(e E) bool { return e.word() == word }) {
			t.Errorf("%s: %q is listed as absent, and is no row of the table, or has no reason", s.file, word)
		}
	}
	for _, e := range all {
		if s.of != nil && !s.of(e) {
			continue
		}
		text := s.text(e)
		switch has, why := strings.Contains(part, text), s.absent[e.word()]; {
		case !has && why == "":
			t.Errorf("%s lacks %q: %s for %s. Write it, or say in the test why the file has none", s.file, strings.TrimSpace(text), s.what, e.called())
		case has && why != "":
			t.Errorf("%s has %q, and %s is listed as absent there", s.file, strings.TrimSpace(text), e.called())
		}
	}
}
