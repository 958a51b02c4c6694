package fdbpq

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each kind of rows and of timers that has a name has an entry in its table, unless it is of
// rows that the store has for itself.
func TestTablesAreComplete(t *testing.T) {
	t.Parallel()
	ofStore := []string{spaceFormat, spaceSecret, spaceTime, spaceWall, spaceSession, spaceGone, spaceSweeper, spaceRunner, spaceScheduleClock, spaceZones}
	var listed []string
	for _, kind := range rowKinds {
		if slices.Contains(listed, kind.space) {
			t.Errorf("the space %q is listed twice", kind.space)
		}
		listed = append(listed, kind.space)
	}
	for space := range rowChecks {
		if !slices.Contains(listed, space) {
			t.Errorf("the check of the space %q has no rows: expected the space in rowKinds", space)
		}
	}
	unchecked := []string{spaceFence, spaceArrivals, spaceGarbage}
	for _, space := range listed {
		if (rowChecks[space] == nil) != slices.Contains(unchecked, space) {
			t.Errorf("rows of the space %q: expected a check, or the space among those where any row is right", space)
		}
	}
	spaces, timers := constants(t, "keys.go", "space"), constants(t, "timerrows.go", "timer")
	for name, space := range spaces {
		if slices.Contains(listed, space) == slices.Contains(ofStore, space) {
			t.Errorf("%s: expected it in rowKinds, or among the rows of the store", name)
		}
	}
	for name, kind := range timers {
		if _, known := timerKinds[kind]; !known || timerWorks[kind].due == nil {
			t.Errorf("%s: expected it in timerKinds and timerWorks", name)
		}
	}
	if len(listed)+len(ofStore) != len(spaces) || len(timerKinds) != len(timers) || len(timerWorks) != len(timers) {
		t.Errorf("%d spaces and %d kinds of timers have names, %d and %d are listed", len(spaces), len(timers), len(listed)+len(ofStore), len(timerKinds))
	}
}

// constants are those of a file whose names begin in some way.
func constants(t *testing.T, file, prefix string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if text, is := spec.Values[0].(*ast.BasicLit); is && text.Kind == token.STRING {
			value, err := strconv.Unquote(text.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[spec.Names[0].Name] = value
		}
		return true
	})
	return found
}
