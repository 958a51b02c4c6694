package layout

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
	ofStore := []string{SpaceFormat, SpaceSecret, SpaceTime, SpaceWall, SpaceSession, SpaceGone, SpaceSweeper, SpaceRunner, SpaceScheduleClock, SpaceZones}
	var listed []string
	for _, kind := range RowKinds {
		if slices.Contains(listed, kind.Space) {
			t.Errorf("the space %q is listed twice", kind.Space)
		}
		listed = append(listed, kind.Space)
	}
	spaces, timers := constants(t, "keys.go", "Space"), constants(t, "timers.go", "Timer")
	for name, space := range spaces {
		if slices.Contains(listed, space) == slices.Contains(ofStore, space) {
			t.Errorf("%s: expected it in RowKinds, or among the rows of the store", name)
		}
	}
	for name, kind := range timers {
		if _, known := TimerKinds[kind]; !known {
			t.Errorf("%s: expected it in TimerKinds", name)
		}
	}
	if len(listed)+len(ofStore) != len(spaces) || len(TimerKinds) != len(timers) || len(timers) == 0 {
		t.Errorf("%d spaces and %d kinds of timers have names, %d and %d are listed", len(spaces), len(timers), len(listed)+len(ofStore), len(TimerKinds))
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
