package named

import (
	"fmt"
	"strings"
)

// MaxName bounds the bytes of a name.
const MaxName = 64

// CheckName returns an error when no definition may have the name.
func CheckName(name string) error {
	if name == "" || len(name) > MaxName || strings.ContainsFunc(name, notOfName) {
		return fmt.Errorf("name %.100q: expected 1 to %d of A-Z a-z 0-9 - _", name, MaxName)
	}
	return nil
}

func notOfName(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
}
