//go:build !race

package expense

const detector = 1
