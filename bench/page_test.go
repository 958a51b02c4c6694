package main

import (
	"strings"
	"testing"
)

// A run replaces the tables of its kind, adds a line to the runs, and leaves the
// rest of the page alone.
func TestPage(t *testing.T) {
	const page = "# Title\n<!-- bench: systems -->\nold\n<!-- bench: end -->\nwords\n<!-- bench: queues -->\nqueues\n<!-- bench: end -->\n" +
		"<!-- bench: runs -->\n\n| date |\n| --- |\n| before |\n\n<!-- bench: end -->\nlast\n"
	r := sampled()
	got, err := r.enter(page, "systems", "new\n")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(strings.Replace(page, "\nold\n", "\n\nnew\n", 1), "| before |\n", "| before |\n"+r.row(), 1)
	if got != want {
		t.Errorf("found\n%s\nexpected\n%s", got, want)
	}
	if !strings.Contains(r.row(), "| 200 |") || strings.Count(r.row(), "| 1.00 ") != 6 {
		t.Errorf("found the row %q, expected 200 echoes and six times 1.00", r.row())
	}
	if got, err := r.enter(page, "queues", "many\n"); err != nil || strings.Contains(got, "queues\n<!-- bench: end") || strings.Count(got, "| 1.00 ") != 0 {
		t.Errorf("found %v and\n%s\nexpected other queues, and no other run", err, got)
	}
	if _, err := r.enter("# Title\n", "systems", "new\n"); err == nil || !strings.Contains(err.Error(), "expected the lines") {
		t.Errorf("a page without places: found %v", err)
	}
}
