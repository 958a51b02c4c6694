//go:build race

package expense

// detector is how many times as much everything costs under the race detector.
const detector = 12
