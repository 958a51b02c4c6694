package nightly

import "testing"

// A test that is left to the night runs by its name, and not by a pattern that others match, too.
func TestNamed(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		test, pattern string
		named         bool
	}{
		{"TestX", "", false},
		{"TestX", "TestX", true},
		{"TestX", "^TestX$", true},
		{"TestX/a", "^TestX$", true},
		{"TestX/a/b", "^TestX$/^a$", true},
		{"TestX", "Test", false},
		{"TestX", "TestX|TestY", false},
		{"TestX", "^(TestX|TestY)$", false},
		{"TestXY", "TestX", false},
		{"TestX", ".", false},
	} {
		if got := isNamed(tc.test, tc.pattern); got != tc.named {
			t.Errorf("%s is named by %q: %t", tc.test, tc.pattern, got)
		}
	}
}

// By day a random test runs a part of its rounds, and one at least.
func TestFewer(t *testing.T) {
	for _, tc := range []struct {
		value string
		want  [3]int
	}{{"", [3]int{1, 2, 20}}, {"nightly", [3]int{3, 10, 100}}, {"day", [3]int{1, 2, 20}}} {
		t.Setenv("PQ_TEST", tc.value)
		if got := [3]int{Fewer(3), Fewer(10), Fewer(100)}; got != tc.want {
			t.Errorf("with %q %d rounds, expected %d", tc.value, got, tc.want)
		}
	}
}
