package source

import (
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
)

// checkFilter refuses filters that no server takes.
func checkFilter(filter []string) error {
	if len(filter) > MaxFilters {
		return jsonfields.Errorf("filter has %d subjects: allowed are %d", len(filter), MaxFilters)
	}
	for i, subject := range filter {
		if subject == "" || len(subject) > maxText || strings.ContainsAny(subject, " \t\r\n\x00") || slices.Contains(strings.Split(subject, "."), "") {
			return jsonfields.Errorf("filter has %.100q: expected subjects", subject)
		}
		for _, other := range filter[:i] {
			if subjectsOverlap(other, subject) {
				return jsonfields.Errorf("filter has %.100q and %.100q: expected subjects that do not overlap", other, subject)
			}
		}
	}
	return nil
}

// subjectsOverlap reports whether a subject may match both.
func subjectsOverlap(one, other string) bool {
	a, b := strings.Split(one, "."), strings.Split(other, ".")
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == ">" || b[i] == ">":
			return true
		case a[i] != b[i] && a[i] != "*" && b[i] != "*":
			return false
		}
	}
	return len(a) == len(b)
}
